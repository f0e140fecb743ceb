import { describe, expect, it } from "vitest";
import { chosen, current, labels, NOBODY, patience, type Replicas, received } from "../src/data/replicas";
import type { Document } from "../src/data/types";

function from(id: string, name = id, now = 0, started = 0): Document {
  return { replica: { id, name, started, version: "1" }, now } as Document;
}

/** Answers in the order of these ids, two seconds apart. */
function answers(before: Replicas, ids: string[], began = 0): Replicas {
  return ids.reduce((all, id, index) => received(all, from(id), began + index * 2_000), before);
}

function times(count: number, id: string): string[] {
  return Array.from({ length: count }, () => id);
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

  it("moves on, and says so, once the shown one is missing from too many answers in a row", () => {
    const most = patience(2);
    const before = answers(NOBODY, ["a", ...times(most - 1, "b")]);
    expect(before.shown).toBe("a");
    const after = answers(before, ["b"]);
    expect(after.shown).toBe("b");
    expect(after.notice).toBe(`a was missing from the last ${most} answers; this is b.`);
    expect([...after.seen.keys()]).toEqual(["b"]);
  });

  it.each([2, 3, 5, 9])("stays with one of %i for an hour, whichever of them answers", (count) => {
    const ids = Array.from({ length: count }, (_, index) => `pod-${index}`);
    let random = 7;
    const anyOf = () => {
      random = (random * 48271) % 2147483647;
      return ids[random % count] as string;
    };
    let turn = 0;
    const inTurn = () => {
      turn += 1;
      return ids[turn % count] as string;
    };
    for (const next of [anyOf, inTurn]) {
      let replicas = answers(NOBODY, ["pod-0"]);
      for (let asked = 0; asked < 1_800; asked += 1) replicas = answers(replicas, [next()], asked * 2_000);
      expect([replicas.shown, replicas.notice]).toEqual(["pod-0", ""]);
      expect(replicas.seen.size).toBe(count);
    }
  });

  it("does not count the time in which nobody asked", () => {
    const both = answers(NOBODY, ["a", "b"]);
    expect(received(both, from("b"), 3_600_000).shown).toBe("a");
  });

  it("shows the next life of a restarted one at once, and no longer lists the former", () => {
    const before = received(NOBODY, from("1111aaaa", "pod", 100, 50), 0);
    const after = received(before, from("2222bbbb", "pod", 108, 106), 8_000);
    expect([after.shown, after.seen.size]).toEqual(["2222bbbb", 1]);
    expect(after.notice).toBe("pod was restarted; its numbers begin anew.");
  });

  it("says so for a minute only", () => {
    const before = received(NOBODY, from("1111aaaa", "pod", 100, 50), 0);
    let after = received(before, from("2222bbbb", "pod", 108, 106), 8_000);
    after = received(after, from("2222bbbb", "pod", 110, 106), 10_000);
    expect(after.notice).not.toBe("");
    expect(received(after, from("2222bbbb", "pod", 170, 106), 70_000).notice).toBe("");
  });

  it("can be chosen among those that were seen", () => {
    const both = received(received(NOBODY, from("a"), 0), from("b"), 1);
    expect(chosen(both, "b").shown).toBe("b");
    expect(chosen(both, "c")).toBe(both);
  });

  it("tells two of one name apart", () => {
    const lives = received(received(NOBODY, from("1111aaaa", "pod"), 0), from("2222bbbb", "pod"), 1);
    expect(labels(lives).map(({ label }) => label)).toEqual(["pod · 1111", "pod · 2222"]);
  });
});
