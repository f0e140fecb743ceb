import { describe, expect, it } from "vitest";
import { batchBars, decades, hitRate, known, points, recentRate } from "../src/data/derive";
import { answersPerSecond } from "../src/data/load";
import type { LoadReport, Timeline } from "../src/data/types";

function timeline(part: Partial<Timeline>): Timeline {
  const zeros = [0, 0, 0];
  const nulls = [null, null, null];
  return {
    step_seconds: 2,
    end: 1_000,
    answers: { exact: zeros, semantic: zeros, coalesced: zeros, miss: zeros, bypass: zeros },
    unanswered: zeros,
    refused: zeros,
    tokens: zeros,
    latency_p50: nulls,
    latency_p95: nulls,
    latency_p99: nulls,
    first_token_p50: nulls,
    first_token_p95: nulls,
    rows: zeros,
    running: zeros,
    waiting: zeros,
    ...part,
  };
}

describe("points", () => {
  it("turns counts of a bucket into rates and places it in time", () => {
    const all = points(timeline({ tokens: [2, 4, 6] }));
    expect(all.map((point) => point.tokens)).toEqual([1, 2, 3]);
    expect(all.map((point) => point.age)).toEqual([-4, -2, 0]);
    expect(all.at(-1)?.time).toBe(1_000);
  });

  it("adds up the sources", () => {
    const zeros = [0, 0, 0];
    const answers = {
      exact: [0, 0, 2],
      semantic: zeros,
      coalesced: [0, 0, 4],
      miss: [0, 0, 2],
      bypass: zeros,
    };
    const all = points(timeline({ answers }));
    expect(all.at(-1)?.answers).toBe(4);
    expect(recentRate(all, (point) => point.answers, 4)).toBe(2);
  });
});

describe("hit rate", () => {
  it("leaves out what the cache may not answer", () => {
    expect(hitRate({ exact: 2, semantic: 1, miss: 1, bypass: 96 })).toBe(0.75);
  });
  it("is unknown before the first lookup", () => {
    expect(hitRate({ bypass: 3 })).toBeNull();
  });
});

describe("batch bars", () => {
  const bounds = [1, 2, 3, 4, 6, 8, 12, 0];
  it("ends at the largest batch that can be, names ranges, and hides no step", () => {
    const bars = batchBars({ mean: 2, bounds, steps: [5, 0, 0, 0, 1, 2, 0, 0] }, 8);
    expect(bars.map((bar) => bar.label)).toEqual(["1", "2", "3", "4", "5–6", "7–8"]);
    expect(bars.reduce((sum, bar) => sum + bar.steps, 0)).toBe(8);
  });
  it("shows a batch beyond the limit if there was one", () => {
    const bars = batchBars({ mean: 2, bounds, steps: [0, 0, 0, 0, 0, 0, 0, 4] }, 2);
    expect(bars.at(-1)).toEqual({ label: "> 12", steps: 4 });
  });
});

describe("a spread", () => {
  const nothing = { count: 0, mean: 0, p50: 0, p95: 0, p99: 0 };
  it("knows no number where nothing was measured", () => {
    expect(known(nothing, "p95")).toBeNull();
    expect(known({ ...nothing, count: 2, p95: 7 }, "p95")).toBe(7);
  });
  it("counts answers alone, not what ended", () => {
    const report = { ended: 500, seconds: 2, all: { ...nothing, count: 6 } } as LoadReport;
    expect(answersPerSecond(report)).toBe(3);
    expect(answersPerSecond({ ...report, seconds: 0, all: nothing })).toBe(0);
  });
});

describe("decades", () => {
  it("encloses the values", () => {
    expect(decades([null, 3, 950])).toEqual([1, 1_000]);
    expect(decades([0.4])).toEqual([0.1, 1]);
    expect(decades([10])).toEqual([10, 100]);
    expect(decades([null])).toEqual([1, 10]);
  });
});
