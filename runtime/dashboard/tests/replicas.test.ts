import { describe, expect, it } from "vitest";
import { chosen, current, GONE_MS, labels, NOBODY, received, SILENT_MS } from "../src/data/replicas";
import type { Document } from "../src/data/types";

function from(id: string, name = id, now = 0): Document {
  return { replica: { id, name, started: 0, version: "1" }, now } as Document;
}

describe("which replica is shown", () => {
  it("stays with the first one while others answer in between", () => {
    let replicas = received(NOBODY, from("a", "pod-a", 1), 0);
    replicas = received(replicas, from("b", "pod-b", 2), 2_000);
    replicas = received(replicas, from("a", "pod-a", 3), 4_000);
    expect(current(replicas)?.document.now).toBe(3);
    expect(labels(replicas).map(({ label }) => label)).toEqual(["pod-a", "pod-b"]);
  });

  it("never joins two replicas' documents", () => {
    const mine = from("a");
    const replicas = received(received(NOBODY, mine, 0), from("b"), 1_000);
    expect(current(replicas)?.document).toBe(mine);
  });

  it("moves on, and says so, once the shown one has been silent", () => {
    const before = received(NOBODY, from("a", "pod-a"), 0);
    expect(received(before, from("b", "pod-b"), SILENT_MS).shown).toBe("a");
    const after = received(before, from("b", "pod-b"), SILENT_MS + 1);
    expect(after.shown).toBe("b");
    expect(after.notice).toContain("pod-a");
  });

  it("can be chosen among those that were seen", () => {
    const both = received(received(NOBODY, from("a"), 0), from("b"), 1);
    expect(chosen(both, "b").shown).toBe("b");
    expect(chosen(both, "c")).toBe(both);
  });

  it("forgets those that are gone", () => {
    const both = received(received(NOBODY, from("a"), 0), from("b"), 1);
    const later = received(both, from("b"), GONE_MS + 1);
    expect([...later.seen.keys()]).toEqual(["b"]);
    expect(later.shown).toBe("b");
  });

  it("tells two lives of one pod apart", () => {
    const lives = received(received(NOBODY, from("1111aaaa", "pod"), 0), from("2222bbbb", "pod"), 1);
    expect(labels(lives).map(({ label }) => label)).toEqual(["pod · 1111", "pod · 2222"]);
  });
});
