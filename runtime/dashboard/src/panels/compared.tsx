import { ago } from "../data/format";
import type { Compared, Document } from "../data/types";
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
  labels: "labelled answers",
};

function Pair({ compared, now }: { compared: Compared; now: number }) {
  return (
    <li className="pair">
      <div>
        <p>
          <span className="tag">asked</span>
          {compared.asked}
        </p>
        <p>
          <span className="tag">stored</span>
          {compared.stored}
        </p>
      </div>
      <div className="verdict">
        <span className={compared.accepted ? "badge good" : "badge"}>
          {compared.accepted ? "Accepted" : (REASONS[compared.reason] ?? compared.reason)}
        </span>
        <span className="faint">
          cosine {compared.similarity.toFixed(3)} · {ago(Math.max(0, now - compared.timestamp))}
        </span>
        <WrongAnswer entry={compared.entry} about={compared.stored} />
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
  const pairs = document.compared.filter((compared) => compared.accepted === accepted).slice(0, most);
  return (
    <Card title={title} hint={hint}>
      {pairs.length ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keys
        <ul className="pairs" tabIndex={0} aria-label={title}>
          {pairs.map((compared) => (
            <Pair key={`${compared.timestamp} ${compared.entry}`} compared={compared} now={document.now} />
          ))}
        </ul>
      ) : (
        <Empty>{empty}</Empty>
      )}
    </Card>
  );
}
