import { ago } from "../data/format";
import type { Document, Judged } from "../data/types";
import { Card, Empty } from "../ui/card";
import { WrongAnswer } from "./feedback";

const REASONS: Record<string, string> = {
  number: "different numbers",
  unit: "different units",
  date: "different dates",
  negation: "one is negated",
  antonym: "opposite words",
  entity: "different names",
  order: "another order",
  score: "score too low",
};

function Pair({ judged, now }: { judged: Judged; now: number }) {
  return (
    <li className="pair">
      <div>
        <p>
          <span className="tag">asked</span>
          {judged.asked}
        </p>
        <p>
          <span className="tag">stored</span>
          {judged.stored}
        </p>
      </div>
      <div className="verdict">
        <span className={judged.accepted ? "badge good" : "badge"}>
          {judged.accepted ? "Accepted" : (REASONS[judged.reason] ?? judged.reason)}
        </span>
        <span className="faint">
          cosine {judged.similarity.toFixed(3)} · {ago(Math.max(0, now - judged.timestamp))}
        </span>
        <WrongAnswer entry={judged.entry} about={judged.stored} />
      </div>
    </li>
  );
}

interface NearProps {
  document: Document;
  accepted: boolean;
  title: string;
  hint: string;
  empty: string;
  most?: number;
}

/** Questions beside the stored one that was nearest, with what the verifier said. */
export function Near({ document, accepted, title, hint, empty, most }: NearProps) {
  const pairs = document.judged.filter((judged) => judged.accepted === accepted).slice(0, most);
  return (
    <Card title={title} hint={hint}>
      {pairs.length ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keys
        <ul className="pairs" tabIndex={0} aria-label={title}>
          {pairs.map((judged) => (
            <Pair key={`${judged.timestamp} ${judged.entry}`} judged={judged} now={document.now} />
          ))}
        </ul>
      ) : (
        <Empty>{empty}</Empty>
      )}
    </Card>
  );
}
