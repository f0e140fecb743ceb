// Asks for the numbers every two seconds while the page can be seen, and tells React of changes.

import { useSyncExternalStore } from "react";
import { ApiError, fetchDocument, setKey } from "./api";
import { chosen, current, NOBODY, type Replicas, received } from "./replicas";
import type { Document } from "./types";

const EVERY_MS = 2_000;
const GIVE_UP_MS = 10_000;

export interface State {
  replicas: Replicas;
  access: "unknown" | "open" | "locked";
  /** Why the newest question had no answer; empty while answers come. */
  trouble: string;
  keyRefused: boolean;
}

let state: State = { replicas: NOBODY, access: "unknown", trouble: "", keyRefused: false };
const listeners = new Set<() => void>();
let timer: number | undefined;
let asking: AbortController | null = null;
let withKey = false;

function change(part: Partial<State>): void {
  state = { ...state, ...part };
  for (const listener of listeners) listener();
}

async function ask(): Promise<void> {
  window.clearTimeout(timer);
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const limit = window.setTimeout(() => mine.abort(), GIVE_UP_MS);
  try {
    const document = await fetchDocument(mine.signal);
    if (asking !== mine) return;
    const replicas = received(state.replicas, document, Date.now());
    change({ replicas, access: "open", trouble: "", keyRefused: false });
  } catch (error) {
    if (asking !== mine) return;
    failed(error);
  } finally {
    window.clearTimeout(limit);
  }
  const seen = window.document.visibilityState === "visible";
  if (asking === mine && seen && state.access !== "locked") timer = window.setTimeout(ask, EVERY_MS);
}

function failed(error: unknown): void {
  if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
    // Whatever was shown was for the key's holder.
    change({ access: "locked", replicas: NOBODY, trouble: error.message, keyRefused: withKey });
  } else if (error instanceof ApiError) {
    change({ trouble: error.message });
  } else {
    change({ trouble: "The server does not answer." });
  }
}

export function start(): () => void {
  const look = () => {
    if (document.visibilityState === "visible") void ask();
    else {
      window.clearTimeout(timer);
      asking?.abort();
      asking = null;
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    window.clearTimeout(timer);
    asking?.abort();
    asking = null;
  };
}

export function refresh(): void {
  void ask();
}

export function unlock(key: string): void {
  setKey(key);
  withKey = key.trim() !== "";
  void ask();
}

export function lock(): void {
  asking?.abort();
  asking = null;
  window.clearTimeout(timer);
  setKey("");
  withKey = false;
  change({ access: "locked", replicas: NOBODY, trouble: "", keyRefused: false });
}

export function show(id: string): void {
  change({ replicas: chosen(state.replicas, id) });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useStore(): State {
  return useSyncExternalStore(subscribe, () => state);
}

export function useDocument(): Document | null {
  return current(useStore().replicas)?.document ?? null;
}
