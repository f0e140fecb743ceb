import type { Source } from "../data/types";

export const SOURCE_NAMES: Record<Source, string> = {
  exact: "Exact hit",
  semantic: "Similar question",
  coalesced: "Shared generation",
  miss: "Generated",
  bypass: "Not cacheable",
};

/** Where an answer came from: a colour and, always, a word. */
export function SourceBadge({ source }: { source: Source }) {
  return (
    <span className="badge">
      <i className="dot" style={{ background: `var(--${source})` }} />
      {SOURCE_NAMES[source]}
    </span>
  );
}
