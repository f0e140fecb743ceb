// The load test's report, read line by line while the test runs.

import { ApiError, sendJson } from "./api";
import { lines } from "./streams";
import type { LoadReport } from "./types";

export const PATTERNS = [
  { value: "unique", label: "No cache: every question is new" },
  { value: "repeated", label: "30 % of the questions repeat" },
  { value: "cached", label: "All cached" },
] as const;
export type Pattern = (typeof PATTERNS)[number]["value"];

export interface LoadWish {
  pattern: Pattern;
  requests: number | null;
  concurrency: number | null;
  max_new_tokens: number | null;
  seed: number | null;
}

export interface Outcome {
  wish: LoadWish;
  report: LoadReport | null;
  samples: LoadReport["samples"];
  problem: string;
}

/** The newest report, with the samples of all. Pure. */
export function joined(before: Outcome, report: LoadReport): Outcome {
  return { ...before, report, samples: [...before.samples, ...report.samples] };
}

/** Of those that were answered: a refusal is quick, and no answer. Pure. */
export function answersPerSecond(report: LoadReport): number {
  return report.all.count / Math.max(report.seconds, 0.001);
}

export async function run(
  wish: LoadWish,
  signal: AbortSignal,
  update: (outcome: Outcome) => void,
): Promise<Outcome> {
  let outcome: Outcome = { wish, report: null, samples: [], problem: "" };
  update(outcome);
  try {
    const response = await sendJson("dashboard/load", wish, { signal });
    if (response.body) {
      for await (const line of lines(response.body)) {
        outcome = joined(outcome, JSON.parse(line));
        update(outcome);
      }
    }
  } catch (error) {
    const broken = error instanceof ApiError ? error.message : "The connection broke off; so did the test.";
    outcome = { ...outcome, problem: signal.aborted ? "Stopped." : broken };
    update(outcome);
  }
  return outcome;
}
