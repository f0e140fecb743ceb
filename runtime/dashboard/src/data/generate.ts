// One request of the playground: sent as any client would, its answer read as it arrives.

import { ApiError, sendJson } from "./api";
import { events } from "./streams";
import type { Source } from "./types";

export interface Wish {
  model: string;
  chat: boolean;
  prompt: string;
  system: string;
  maxTokens: number | null;
  temperature: number | null;
  topP: number | null;
  seed: number | null;
  stream: boolean;
  cacheControl: string;
  threshold: number | null;
}

export interface Reply {
  text: string;
  state: "waiting" | "running" | "done" | "failed" | "stopped";
  problem: string;
  /** Seen from this browser, in milliseconds. */
  firstTokenMs: number | null;
  totalMs: number | null;
  tokens: number | null;
  finishReason: string;
  source: Source | null;
  entry: string | null;
  headers: [name: string, value: string][];
}

export const NO_REPLY: Reply = {
  text: "",
  state: "waiting",
  problem: "",
  firstTokenMs: null,
  totalMs: null,
  tokens: null,
  finishReason: "",
  source: null,
  entry: null,
  headers: [],
};

const SHOWN = [
  "x-ferry-cache",
  "x-ferry-cache-similarity",
  "x-ferry-cache-entry",
  "age",
  "cache-status",
  "x-request-id",
];

export function bodyOf(wish: Wish): Record<string, unknown> {
  const messages = [
    ...(wish.system ? [{ role: "system", content: wish.system }] : []),
    { role: "user", content: wish.prompt },
  ];
  const optional = Object.entries({
    max_tokens: wish.maxTokens,
    temperature: wish.temperature,
    top_p: wish.topP,
    seed: wish.seed,
  }).filter(([, value]) => value !== null);
  return {
    model: wish.model,
    ...(wish.chat ? { messages } : { prompt: wish.prompt }),
    ...Object.fromEntries(optional),
    ...(wish.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  };
}

export function headersOf(wish: Wish): Record<string, string> {
  return {
    ...(wish.cacheControl ? { "cache-control": wish.cacheControl } : {}),
    ...(wish.threshold !== null ? { "x-ferry-cache-threshold": String(wish.threshold) } : {}),
  };
}

/** Calls ``update`` with every change; the last state is done, failed or stopped. */
export async function generate(
  wish: Wish,
  signal: AbortSignal,
  update: (reply: Reply) => void,
): Promise<Reply> {
  const began = performance.now();
  let reply = NO_REPLY;
  const change = (part: Partial<Reply>) => {
    reply = { ...reply, ...part };
    update(reply);
  };
  try {
    const path = wish.chat ? "v1/chat/completions" : "v1/completions";
    const response = await sendJson(path, bodyOf(wish), { headers: headersOf(wish), signal });
    change({ state: "running", ...labelled(response) });
    for await (const chunk of chunks(response, wish.stream)) {
      const first = reply.firstTokenMs ?? (chunk.text ? performance.now() - began : null);
      change({ ...chunk.rest, text: reply.text + chunk.text, firstTokenMs: first });
    }
    change({ state: "done", totalMs: performance.now() - began });
  } catch (error) {
    const stopped = signal.aborted;
    const problem = error instanceof ApiError ? error.message : "The connection broke off.";
    change({
      state: stopped ? "stopped" : "failed",
      problem: stopped ? "" : problem,
      totalMs: performance.now() - began,
    });
  }
  return reply;
}

function labelled(response: Response): Partial<Reply> {
  const headers = SHOWN.flatMap((name): [string, string][] => {
    const value = response.headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  return {
    headers,
    source: response.headers.get("x-ferry-cache") as Source | null,
    entry: response.headers.get("x-ferry-cache-entry"),
  };
}

interface Chunk {
  text: string;
  rest: Partial<Reply>;
}

async function* chunks(response: Response, stream: boolean): AsyncGenerator<Chunk> {
  if (!stream || !response.body) {
    yield read(await response.json());
    return;
  }
  for await (const data of events(response.body)) yield read(JSON.parse(data));
}

interface Completion {
  error?: { message: string; code?: string };
  choices?: {
    text?: string;
    delta?: { content?: string };
    message?: { content?: string };
    finish_reason?: string;
  }[];
  usage?: { completion_tokens: number } | null;
}

export function read(completion: Completion): Chunk {
  if (completion.error) throw new ApiError(200, completion.error.code ?? "", completion.error.message);
  const choice = completion.choices?.[0];
  const rest: Partial<Reply> = {};
  if (completion.usage) rest.tokens = completion.usage.completion_tokens;
  if (choice?.finish_reason) rest.finishReason = choice.finish_reason;
  return { text: choice?.delta?.content ?? choice?.message?.content ?? choice?.text ?? "", rest };
}
