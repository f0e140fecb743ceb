import { useState } from "react";
import { type Outcome, PATTERNS, type Pattern, run } from "../data/load";
import { refresh } from "../data/store";
import { LoadResult, Runs } from "../panels/loadresult";
import { Card } from "../ui/card";
import { Choice, NumberField, numeric } from "../ui/field";
import { Submit } from "../ui/submit";

const REMEMBERED = 6;

export function LoadPage() {
  const [pattern, setPattern] = useState<Pattern>("repeated");
  const [requests, setRequests] = useState("50");
  const [concurrency, setConcurrency] = useState("8");
  const [maxTokens, setMaxTokens] = useState("16");
  const [seed, setSeed] = useState("");
  const [running, setRunning] = useState<AbortController | null>(null);
  const [runs, setRuns] = useState<Outcome[]>([]);
  const [latest, setLatest] = useState<Outcome | null>(null);

  async function start() {
    if (running) return;
    const stop = new AbortController();
    setRunning(stop);
    const outcome = await run(
      {
        pattern,
        requests: numeric(requests),
        concurrency: numeric(concurrency),
        max_new_tokens: numeric(maxTokens),
        seed: numeric(seed),
      },
      stop.signal,
      setLatest,
    );
    setRunning(null);
    if (outcome.report?.over) setRuns((before) => [outcome, ...before].slice(0, REMEMBERED));
    refresh();
  }

  return (
    <div className="stack">
      <Card
        title="Load test"
        hint="Asks this replica from inside, through guard, cache, queue and engine; at most 500 requests, 64 at a time, two minutes. It competes with real traffic."
      >
        <form
          className="load-form"
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <Choice label="Traffic" value={pattern} options={PATTERNS} onChange={setPattern} />
          <NumberField label="Requests" value={requests} onChange={setRequests} min={1} max={500} step={1} />
          <NumberField
            label="At a time"
            value={concurrency}
            onChange={setConcurrency}
            min={1}
            max={64}
            step={1}
          />
          <NumberField
            label="Tokens each"
            value={maxTokens}
            onChange={setMaxTokens}
            min={1}
            max={128}
            step={1}
          />
          <NumberField label="Seed" value={seed} onChange={setSeed} min={0} step={1} placeholder="random" />
          <Submit label="Start" running={running} />
        </form>
      </Card>
      {latest && <LoadResult outcome={latest} running={running !== null} />}
      {runs.length > 0 && <Runs runs={runs} />}
    </div>
  );
}
