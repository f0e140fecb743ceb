import { useRef, useState } from "react";
import { latency } from "../data/format";
import { generate, NO_REPLY, type Reply, type Wish } from "../data/generate";
import { refresh } from "../data/store";
import type { Document } from "../data/types";
import { ReplyPane } from "../panels/reply";
import { Card } from "../ui/card";
import { AreaField, Choice, NumberField, numeric, Toggle } from "../ui/field";
import { SourceBadge } from "../ui/source";
import { Submit } from "../ui/submit";

const CACHE_MODES = [
  { value: "", label: "Use it" },
  { value: "no-cache", label: "Ask the model, keep the answer (no-cache)" },
  { value: "no-cache, no-store", label: "Keep out of it (no-cache, no-store)" },
  { value: "only-if-cached", label: "Cached answers only (only-if-cached)" },
] as const;
type CacheMode = (typeof CACHE_MODES)[number]["value"];

const EXAMPLES = [
  "What is the capital of France?",
  "Explain what a ferry is, in one sentence.",
  "Name three facts about rivers.",
];
const REMEMBERED = 20;

interface Sent {
  number: number;
  prompt: string;
  reply: Reply;
}

export function Playground({ document }: { document: Document }) {
  const { service } = document;
  const [prompt, setPrompt] = useState("");
  const [system, setSystem] = useState("");
  const [maxTokens, setMaxTokens] = useState("64");
  const [temperature, setTemperature] = useState("0");
  const [topP, setTopP] = useState("");
  const [seed, setSeed] = useState("");
  const [threshold, setThreshold] = useState("");
  const [mode, setMode] = useState<CacheMode>("");
  const [stream, setStream] = useState(true);
  const [compare, setCompare] = useState(false);
  const [asked, setAsked] = useState("");
  const [left, setLeft] = useState<Reply | null>(null);
  const [right, setRight] = useState<Reply | null>(null);
  const [sent, setSent] = useState<Sent[]>([]);
  const [running, setRunning] = useState<AbortController | null>(null);
  const number = useRef(0);

  const wish: Wish = {
    model: service.model,
    chat: service.chat,
    prompt,
    system,
    maxTokens: numeric(maxTokens),
    temperature: numeric(temperature),
    topP: numeric(topP),
    seed: numeric(seed),
    stream,
    cacheControl: mode,
    threshold: numeric(threshold),
  };

  async function submit() {
    if (running || !prompt.trim()) return;
    const stop = new AbortController();
    setRunning(stop);
    setAsked(prompt);
    setLeft(NO_REPLY);
    setRight(compare ? NO_REPLY : null);
    const replies = await Promise.all([
      generate(wish, stop.signal, setLeft),
      ...(compare ? [generate({ ...wish, cacheControl: "no-cache" }, stop.signal, setRight)] : []),
    ]);
    const lines = replies.map((reply) => {
      number.current += 1;
      return { number: number.current, prompt, reply };
    });
    setSent((before) => [...lines.toReversed(), ...before].slice(0, REMEMBERED));
    setRunning(null);
    refresh();
  }

  return (
    <div className="playground">
      <Card
        title="Ask"
        className={right ? "span" : ""}
        hint={`${service.chat ? "Chat" : "Completion"} of ${service.model}`}
      >
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <AreaField label="Prompt" rows={4} value={prompt} onChange={setPrompt} onSubmit={submit} />
          <div className="examples">
            {EXAMPLES.map((example) => (
              <button type="button" className="small" key={example} onClick={() => setPrompt(example)}>
                {example}
              </button>
            ))}
          </div>
          {service.chat && (
            <details>
              <summary>System prompt</summary>
              <AreaField label="System prompt" rows={2} value={system} onChange={setSystem} />
            </details>
          )}
          <div className="fields">
            <NumberField
              label="Max tokens"
              value={maxTokens}
              onChange={setMaxTokens}
              min={1}
              placeholder="default"
            />
            <NumberField
              label="Temperature"
              value={temperature}
              onChange={setTemperature}
              min={0}
              max={2}
              step="any"
              placeholder="default"
            />
            <NumberField
              label="Top p"
              value={topP}
              onChange={setTopP}
              min={0}
              max={1}
              step="any"
              placeholder="default"
            />
            <NumberField label="Seed" value={seed} onChange={setSeed} step={1} placeholder="none" />
            <NumberField
              label="Similarity at least"
              value={threshold}
              onChange={setThreshold}
              min={0}
              max={1}
              step="any"
              placeholder={String(service.similarity_threshold)}
            />
            <Choice label="Cache" value={mode} options={CACHE_MODES} onChange={setMode} />
          </div>
          <div className="actions">
            <Toggle label="Stream" checked={stream} onChange={setStream} />
            <Toggle label="Side by side with an uncached answer" checked={compare} onChange={setCompare} />
            <Submit label="Send" running={running} disabled={!prompt.trim() || !service.ready} />
          </div>
          {!service.ready && <p className="problem">{service.reason}</p>}
        </form>
      </Card>
      <Card
        title="Answer"
        hint="Times as seen from this browser"
        className={right ? "answers two" : "answers"}
      >
        {left ? (
          <div className="replies">
            <ReplyPane title={right ? "With the cache" : "Answer"} hint="asked" prompt={asked} reply={left} />
            {right && <ReplyPane title="Without (no-cache)" hint="asked" prompt={asked} reply={right} />}
          </div>
        ) : (
          <p className="empty">
            Ask the same thing twice, then in other words, and watch where the answers come from.
          </p>
        )}
      </Card>
      {sent.length > 0 && (
        <Card
          title="Sent from here"
          hint={`The latest ${REMEMBERED}; forgotten with this tab`}
          className="span"
        >
          <ol className="sent">
            {sent.map((line) => (
              <li key={line.number}>
                <span className="faint">{line.number}</span>
                <span className="prompt">{line.prompt}</span>
                {line.reply.source ? (
                  <SourceBadge source={line.reply.source} />
                ) : (
                  <span className="badge bad">{line.reply.state}</span>
                )}
                <b>{latency(line.reply.totalMs)}</b>
              </li>
            ))}
          </ol>
        </Card>
      )}
    </div>
  );
}
