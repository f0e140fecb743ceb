// Bodies that arrive in pieces: server-sent events and lines of JSON. A piece may end anywhere.

/** The whole lines of a text that arrives in chunks. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const parts = rest.split("\n");
      rest = parts.pop() ?? "";
      yield* parts.map((line) => line.replace(/\r$/, ""));
      if (done) {
        if (rest) yield rest;
        return;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** The data of each event, up to the [DONE] of OpenAI's streams. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  for await (const line of lines(body)) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") return;
    yield data;
  }
}
