// From a document to what is drawn. Pure, and nothing is guessed: sums, shares and rates of its numbers.

import { type Document, HITS, SOURCES, type Source, type Spread, type Timeline } from "./types";

export interface Point {
  /** Seconds before the newest bucket's end, negative. */
  age: number;
  time: number;
  answers: number;
  exact: number;
  semantic: number;
  coalesced: number;
  miss: number;
  bypass: number;
  unanswered: number;
  refused: number;
  tokens: number;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  first50: number | null;
  first95: number | null;
  rows: number;
  running: number;
  waiting: number;
}

/** Counts become rates per second. */
export function points(timeline: Timeline): Point[] {
  const { step_seconds: step } = timeline;
  const length = timeline.tokens.length;
  return timeline.tokens.map((tokens, index) => {
    const age = (index + 1 - length) * step;
    const by = (source: Source) => (timeline.answers[source][index] ?? 0) / step;
    return {
      age,
      time: timeline.end + age,
      answers: SOURCES.reduce((sum, source) => sum + by(source), 0),
      exact: by("exact"),
      semantic: by("semantic"),
      coalesced: by("coalesced"),
      miss: by("miss"),
      bypass: by("bypass"),
      unanswered: (timeline.unanswered[index] ?? 0) / step,
      refused: (timeline.refused[index] ?? 0) / step,
      tokens: tokens / step,
      p50: timeline.latency_p50[index] ?? null,
      p95: timeline.latency_p95[index] ?? null,
      p99: timeline.latency_p99[index] ?? null,
      first50: timeline.first_token_p50[index] ?? null,
      first95: timeline.first_token_p95[index] ?? null,
      rows: timeline.rows[index] ?? 0,
      running: timeline.running[index] ?? 0,
      waiting: timeline.waiting[index] ?? 0,
    };
  });
}

/** The mean of the last ``seconds`` of whole buckets. */
export function recentRate(all: Point[], of: (point: Point) => number, seconds: number): number {
  const last = all.filter((point) => point.age > -seconds);
  return last.length ? last.reduce((sum, point) => sum + of(point), 0) / last.length : 0;
}

export function answered(document: Document): number {
  return SOURCES.reduce((sum, source) => sum + (document.totals.answers[source] ?? 0), 0);
}

/** Hits over hits and misses, as in /metrics; null before the first of either. */
export function hitRate(answers: Partial<Record<Source, number>>): number | null {
  const hits = HITS.reduce((sum, source) => sum + (answers[source] ?? 0), 0);
  const lookups = hits + (answers.miss ?? 0);
  return lookups ? hits / lookups : null;
}

export function saved(document: Document): number {
  return HITS.reduce((sum, source) => sum + (document.totals.saved_tokens[source] ?? 0), 0);
}

export interface Bar {
  label: string;
  steps: number;
}

/** The histogram's buckets up to the largest one that was used or could be. */
export function batchBars(batch: Document["batch"], most: number): Bar[] {
  const bars: Bar[] = [];
  const used = batch.steps.findLastIndex((steps) => steps > 0);
  let below = 0;
  batch.bounds.forEach((bound, index) => {
    const open = bound === 0;
    if (!(index > used && below >= most)) {
      const label = open ? `> ${below}` : bound - below > 1 ? `${below + 1}–${bound}` : String(bound);
      bars.push({ label, steps: batch.steps[index] ?? 0 });
    }
    below = bound;
  });
  return bars;
}

/** One number of a spread; null where nothing was measured. */
export function known(spread: Spread, of: "mean" | "p50" | "p95" | "p99"): number | null {
  return spread.count ? spread[of] : null;
}

export function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/** The powers of ten that enclose all values, at least one decade apart. */
export function decades(values: (number | null)[]): [number, number] {
  const known = values.filter((value): value is number => value !== null && value > 0);
  if (!known.length) return [1, 10];
  const from = 10 ** Math.floor(Math.log10(Math.min(...known)));
  const to = 10 ** Math.ceil(Math.log10(Math.max(...known)));
  return [from, to > from ? to : from * 10];
}
