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

/** The data of each event, up to the [DONE] of OpenAI's streams. The body is read to its end even so: who
 *  leaves before has, to the server, cancelled. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let done = false;
  for await (const line of lines(body)) {
    const data = line.startsWith("data:") ? line.slice(5).trim() : "";
    done ||= data === "[DONE]";
    if (data && !done) yield data;
  }
}
