// Which replica is shown. Behind a load balancer any of them may answer, and each one tells of itself
// alone: a document is shown whole or not at all, and never joined with another replica's. Pure.

import type { Document } from "./types";

const UNLIKELY = 1e-5; // that a replica which is well is missed so often
const NOTICE_MS = 60_000;

export interface Seen {
  document: Document;
  /** Answers of others since its own last one. Nothing counts while nobody asks. */
  missed: number;
}

export interface Replicas {
  seen: ReadonlyMap<string, Seen>;
  shown: string | null;
  notice: string; // why another replica is shown than before; empty otherwise
  noticed: number; // milliseconds of this browser's clock
}

export const NOBODY: Replicas = { seen: new Map(), shown: null, notice: "", noticed: 0 };

/** How many answers in a row may come from others before a replica counts as gone, if chance decides
 * which one of ``count`` answers. */
export function patience(count: number): number {
  return count > 1 ? Math.ceil(Math.log(UNLIKELY) / Math.log(1 - 1 / count)) : 1;
}

export function received(before: Replicas, document: Document, at: number): Replicas {
  const { id, name } = document.replica;
  const most = patience(before.seen.size + (before.seen.has(id) ? 0 : 1));
  const seen = new Map<string, Seen>();
  for (const [other, known] of before.seen) {
    if (other === id) seen.set(id, { document, missed: 0 });
    else if (known.missed + 1 < most && !succeeds(document, known.document))
      seen.set(other, { ...known, missed: known.missed + 1 });
  }
  seen.set(id, { document, missed: 0 });
  if (before.shown !== null && seen.has(before.shown)) {
    const notice = at - before.noticed < NOTICE_MS ? before.notice : "";
    return { ...before, seen, notice };
  }
  const former = current(before);
  if (!former) return { ...before, seen, shown: id };
  const notice = succeeds(document, former.document)
    ? `${name} was restarted; its numbers begin anew.`
    : `${former.document.replica.name} was missing from the last ${most} answers; this is ${name}.`;
  return { seen, shown: id, notice, noticed: at };
}

/** Whether one is a later life of the other: begun, by the clock of both, after what the other said last. */
function succeeds(one: Document, other: Document): boolean {
  return one.replica.name === other.replica.name && one.replica.started > other.now;
}

export function chosen(before: Replicas, id: string): Replicas {
  return before.seen.has(id) ? { ...before, shown: id, notice: "" } : before;
}

export function current(replicas: Replicas): Seen | null {
  return (replicas.shown !== null && replicas.seen.get(replicas.shown)) || null;
}

/** Names for a list; replicas of one name (two lives of a pod) get a part of their id. */
export function labels(replicas: Replicas): { id: string; label: string }[] {
  const all = [...replicas.seen.values()].map((seen) => seen.document.replica);
  return all.map(({ id, name }) => ({
    id,
    label: all.filter((other) => other.name === name).length > 1 ? `${name} · ${id.slice(0, 4)}` : name,
  }));
}
