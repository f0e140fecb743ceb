import { sum } from "../data/derive";
import { bytes, count, duration, share } from "../data/format";
import type { CacheStats, Document } from "../data/types";
import { Near } from "../panels/compared";
import { HitRate, SavedTokens } from "../panels/hits";
import { Card, Empty, Stat } from "../ui/card";

function Counts({ title, hint, counts }: { title: string; hint: string; counts: Record<string, number> }) {
  const rows = Object.entries(counts).sort(([, one], [, other]) => other - one);
  return (
    <Card title={title} hint={hint}>
      {rows.length ? (
        <ul className="counts">
          {rows.map(([name, value]) => (
            <li key={name}>
              <span>{name.replace("/", ": ").replaceAll("_", " ")}</span>
              <b>{count(value)}</b>
            </li>
          ))}
        </ul>
      ) : (
        <Empty>None so far.</Empty>
      )}
    </Card>
  );
}

function Held({ cache, document }: { cache: CacheStats; document: Document }) {
  const { service } = document;
  const { wrongRate, verdicts } = cache.shadow;
  const compared = sum(verdicts);
  return (
    <dl className="stats framed">
      <Stat label="entries here" value={count(cache.entries)} note={bytes(cache.bytes)} />
      <Stat label="in the semantic index" value={count(cache.indexed)} />
      <Stat
        label="threshold"
        value={service.similarity_threshold.toFixed(2)}
        note={`verifier ${service.verifier}`}
      />
      <Stat label="kept for" value={duration(service.cache_ttl_seconds)} />
      <Stat
        label="store"
        value={cache.store.shared ? (cache.store.reachable ? "shared" : "unreachable") : "this process"}
        note={service.store.state}
      />
      <Stat
        label="wrong semantic hits"
        value={compared ? `${share(wrongRate.low)} to ${share(wrongRate.high)}` : "–"}
        note={`${count(compared)} compared`}
      />
    </dl>
  );
}

export function CachePage({ document }: { document: Document }) {
  const { cache } = document;
  if (!cache) {
    return (
      <Card title="Cache">
        <Empty>
          {document.service.store.state === "waiting"
            ? "There is no cache yet: the Secret with the store's address is missing. Nothing is cached until it is there."
            : "There is no cache yet: the service is starting."}
        </Empty>
      </Card>
    );
  }
  return (
    <>
      {!document.service.cache_enabled && (
        <p className="problem">cache.enabled is false: nothing is looked up and nothing is kept.</p>
      )}
      <Held cache={cache} document={document} />
      <div className="grid">
        <HitRate document={document} />
        <SavedTokens document={document} />
        <Near
          document={document}
          accepted={false}
          title="Near misses"
          hint="Over the threshold, and refused by the verifier. “Wrong answer” evicts the stored one."
          empty="No question has come close to a stored one without being answered from it."
        />
        <Near
          document={document}
          accepted
          title="Answered from a similar question"
          hint="Was the stored answer wrong for this question? One click evicts it on every replica."
          empty="No question has been answered from a similar one yet."
        />
        <Counts title="Lookups" hint="By tier and outcome" counts={cache.lookups} />
        <Counts title="Refused candidates" hint="By the verifier's reason" counts={cache.rejections} />
        <Counts title="Kept out" hint="Requests that the cache may not answer" counts={cache.bypasses} />
        <Counts title="Without the semantic tier" hint="By reason" counts={cache.semanticSkips} />
      </div>
    </>
  );
}
