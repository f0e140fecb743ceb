import { describe, expect, it } from "vitest";
import { age, bytes, compact, duration, latency, rate, share } from "../src/data/format";
import { pageOf } from "../src/routes";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("numbers for people", () => {
  it.each([
    [latency(null), "–"],
    [latency(3.25), "3.3 ms"],
    [latency(485.2), "485 ms"],
    [latency(1_234), "1.23 s"],
    [latency(32_000), "32.0 s"],
    [share(null), "–"],
    [share(0.004), "0.4 %"],
    [share(0.725), "73 %"],
    [rate(0), "0"],
    [rate(0.04), "0.04"],
    [rate(3.3333), "3.3"],
    [compact(2_392), "2,392"],
    [compact(23_920), "23.9K"],
    [duration(59), "59 s"],
    [duration(3_600), "1 h"],
    [duration(3_700), "1 h 1 min"],
    [duration(90_000), "1 d 1 h"],
    [bytes(999), "999 B"],
    [bytes(41_600), "41.6 kB"],
    [age(0), "now"],
    [age(-120), "−2 min"],
    [age(-45), "−45 s"],
  ])("%s", (shown, expected) => {
    expect(plain(shown)).toBe(expected);
  });
});

describe("pages", () => {
  it.each([
    ["", "overview"],
    ["#/", "overview"],
    ["#/cache", "cache"],
    ["#load", "load"],
    ["#/nope", "overview"],
  ])("%s", (hash, page) => {
    expect(pageOf(hash)).toBe(page);
  });
});
