import { describe, expect, it } from "vitest";
import { bodyOf, headersOf, read, type Wish } from "../src/data/generate";

const WISH: Wish = {
  model: "m",
  chat: true,
  prompt: "hi",
  system: "",
  maxTokens: null,
  temperature: null,
  topP: null,
  seed: null,
  stream: false,
  cacheControl: "",
  threshold: null,
};

describe("a request of the playground", () => {
  it("leaves out what was not given, so that the server's defaults hold", () => {
    expect(bodyOf(WISH)).toEqual({ model: "m", messages: [{ role: "user", content: "hi" }] });
    expect(headersOf(WISH)).toEqual({});
  });

  it("sends what was given, zero included", () => {
    const body = bodyOf({ ...WISH, temperature: 0, seed: 0, system: "short", stream: true });
    expect(body).toMatchObject({
      temperature: 0,
      seed: 0,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(body.messages).toHaveLength(2);
    expect(headersOf({ ...WISH, cacheControl: "no-cache", threshold: 0.9 })).toEqual({
      "cache-control": "no-cache",
      "x-ferry-cache-threshold": "0.9",
    });
  });

  it("asks a base model for a completion", () => {
    expect(bodyOf({ ...WISH, chat: false })).toEqual({ model: "m", prompt: "hi" });
  });
});

describe("an answer", () => {
  it("is read whole, in pieces, and as a completion", () => {
    expect(read({ choices: [{ message: { content: "a" }, finish_reason: "stop" }] })).toEqual({
      text: "a",
      rest: { finishReason: "stop" },
    });
    expect(read({ choices: [{ delta: { content: "b" } }] }).text).toBe("b");
    expect(read({ choices: [{ text: "c" }] }).text).toBe("c");
    expect(read({ choices: [], usage: { completion_tokens: 7 } })).toEqual({ text: "", rest: { tokens: 7 } });
  });

  it("that breaks off with an error is a failure", () => {
    expect(() => read({ error: { message: "The engine failed." } })).toThrow("The engine failed.");
  });
});
