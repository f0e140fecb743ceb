// Light, dark, or what the system says. The choice is the one thing that the page remembers.

import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const NAME = "ferry-theme";
const listeners = new Set<() => void>();

function remembered(): Theme {
  try {
    const value = localStorage.getItem(NAME);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // storage may be forbidden
  }
}

let theme = remembered();

export function applyTheme(next: Theme = theme): void {
  theme = next;
  document.documentElement.dataset.theme = next;
  try {
    if (next === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, next);
  } catch {
    // Then it lasts as long as the tab.
  }
  for (const listener of listeners) listener();
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
}
