import { count, share } from "../data/format";

export interface Segment {
  name: string;
  color: string;
  value: number;
}

/** Parts of a whole: one bar, and a list that says the same in words. */
export function Segments({ parts, unit }: { parts: Segment[]; unit: string }) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  return (
    <div className="segments">
      <div className="segments-bar" aria-hidden="true">
        {parts
          .filter((part) => part.value > 0)
          .map((part) => (
            <i key={part.name} style={{ flexGrow: part.value, background: part.color }} />
          ))}
      </div>
      <ul>
        {parts.map((part) => (
          <li key={part.name}>
            <i className="dot" style={{ background: part.color }} />
            <span>{part.name}</span>
            <b>
              {count(part.value)}
              <span className="sr"> {unit}</span>
            </b>
            <span className="faint">{total ? share(part.value / total) : "–"}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
