// Which replica is shown. Behind a load balancer any of them may answer, and each one tells of itself
// alone: a document is shown whole or not at all, and never joined with another replica's. Pure.

import type { Document } from "./types";

export const SILENT_MS = 15_000; // then another replica is shown, if one answers
export const GONE_MS = 60_000; // then a replica is no longer listed

export interface Seen {
  document: Document;
  at: number; // milliseconds of this browser's clock
}

export interface Replicas {
  seen: ReadonlyMap<string, Seen>;
  shown: string | null;
  notice: string; // why another replica is shown than before; empty otherwise
}

export const NOBODY: Replicas = { seen: new Map(), shown: null, notice: "" };

export function received(before: Replicas, document: Document, at: number): Replicas {
  const seen = new Map([...before.seen].filter(([, other]) => at - other.at < GONE_MS));
  const { id, name } = document.replica;
  const shown = before.shown === null ? null : before.seen.get(before.shown);
  seen.set(id, { document, at });
  if (before.shown === null || !shown) return { seen, shown: id, notice: before.notice };
  if (before.shown !== id && at - shown.at > SILENT_MS) {
    return { seen, shown: id, notice: `${shown.document.replica.name} no longer answers; this is ${name}.` };
  }
  return { ...before, seen };
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
