// Requests to the server that this page came from. Addresses are relative: a proxy may add a prefix.

import type { Document } from "./types";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

let key = ""; // in this tab's memory only: a reload forgets it

export function setKey(text: string): void {
  key = text.trim();
}

export function hasKey(): boolean {
  return key !== "";
}

export function address(path: string): string {
  return new URL(`../${path}`, document.baseURI).href;
}

export async function send(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (key) headers.set("authorization", `Bearer ${key}`);
  const response = await fetch(address(path), {
    ...options,
    headers,
    // No cache mode: "no-store" would add "Cache-Control: no-cache", which Ferry takes at its word.
    credentials: "same-origin",
    redirect: "error",
  });
  if (!response.ok) throw await failure(response);
  return response;
}

export function sendJson(path: string, body: unknown, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  headers.set("content-type", "application/json");
  return send(path, { ...options, method: "POST", headers, body: JSON.stringify(body) });
}

export async function fetchDocument(signal: AbortSignal): Promise<Document> {
  return (await send("dashboard/data", { signal })).json();
}

export async function giveFeedback(entry: string, verdict: "wrong" | "good"): Promise<void> {
  await sendJson("cache/feedback", { entry, verdict });
}

async function failure(response: Response): Promise<ApiError> {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error.code ?? error.type, error.message);
  } catch {
    return new ApiError(response.status, "unreadable", `The server answered ${response.status}.`);
  }
}
