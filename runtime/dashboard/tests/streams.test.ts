import { describe, expect, it } from "vitest";
import { events, lines } from "../src/data/streams";

function arriving(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

const text = (value: string) => new TextEncoder().encode(value);

async function all(generator: AsyncGenerator<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const item of generator) found.push(item);
  return found;
}

describe("streams", () => {
  it("puts lines together that arrive in any pieces, also inside a character", async () => {
    const whole = text('{"a":"ü"}\n{"b":2}\n');
    for (let cut = 1; cut < whole.length; cut += 1) {
      expect(await all(lines(arriving(whole.slice(0, cut), whole.slice(cut))))).toEqual([
        '{"a":"ü"}',
        '{"b":2}',
      ]);
    }
  });

  it("keeps a last line that has no end", async () => {
    expect(await all(lines(arriving(text("a\nb"))))).toEqual(["a", "b"]);
  });

  it("reads the data of events up to [DONE] and nothing else", async () => {
    const body = text(
      ': hello\r\n\r\ndata: {"x":1}\n\nevent: y\ndata:{"x":2}\n\ndata: [DONE]\n\ndata: late\n\n',
    );
    expect(await all(events(arriving(body)))).toEqual(['{"x":1}', '{"x":2}']);
  });
});
