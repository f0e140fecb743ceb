import { hitRate, saved } from "../data/derive";
import { compact, count, share } from "../data/format";
import { type Document, HITS, SOURCES } from "../data/types";
import { Card } from "../ui/card";
import { Segments } from "../ui/segments";
import { SOURCE_NAMES } from "../ui/source";

export function HitRate({ document }: { document: Document }) {
  const { answers } = document.totals;
  return (
    <Card
      title="Answers by tier"
      hint="Since this replica started"
      aside={
        <span className="figure-value" data-testid="hit-rate">
          {share(hitRate(answers))}
          <small>hits</small>
        </span>
      }
    >
      <Segments
        unit="answers"
        parts={SOURCES.map((source) => ({
          name: SOURCE_NAMES[source],
          color: `var(--${source})`,
          value: answers[source] ?? 0,
        }))}
      />
    </Card>
  );
}

export function SavedTokens({ document }: { document: Document }) {
  const { saved_tokens: bySource, generated_tokens: generated } = document.totals;
  const all = saved(document);
  return (
    <Card
      title="Tokens saved by the cache"
      hint="Tokens of answers that nothing was computed for"
      aside={
        <span className="figure-value" data-testid="saved-tokens">
          {compact(all)}
          <small>{share(all + generated ? all / (all + generated) : null)}</small>
        </span>
      }
    >
      <Segments
        unit="tokens"
        parts={[
          ...HITS.map((source) => ({
            name: SOURCE_NAMES[source],
            color: `var(--${source})`,
            value: bySource[source] ?? 0,
          })),
          { name: "Generated", color: "var(--miss)", value: generated },
        ]}
      />
      <p className="hint">
        {count(document.totals.prompt_tokens)} prompt tokens were given to the engine. Since its own start it
        has reused {count(document.live.prefix_reused_tokens)} from saved prefixes instead of reading them
        again.
      </p>
    </Card>
  );
}
