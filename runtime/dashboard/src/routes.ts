// Pages are told apart by the fragment, which no server or proxy ever sees: a reload always works.

import { useSyncExternalStore } from "react";

export const PAGES = [
  { id: "overview", title: "Overview" },
  { id: "requests", title: "Requests" },
  { id: "cache", title: "Cache" },
  { id: "playground", title: "Playground" },
  { id: "load", title: "Load test" },
  { id: "architecture", title: "Architecture" },
] as const;

export type PageId = (typeof PAGES)[number]["id"];

export function pageOf(hash: string): PageId {
  const id = hash.replace(/^#\/?/, "");
  return PAGES.find((page) => page.id === id)?.id ?? "overview";
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
}

export function usePage(): PageId {
  return useSyncExternalStore(subscribe, () => pageOf(window.location.hash));
}
