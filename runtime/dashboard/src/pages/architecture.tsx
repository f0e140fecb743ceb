import type { ReactNode } from "react";
import { points, recentRate, sum } from "../data/derive";
import { bytes, clock, count, duration, latency, rate, share } from "../data/format";
import type { Document } from "../data/types";
import { Slots } from "../panels/queue";
import { Card, Stat } from "../ui/card";

interface StageProps {
  name: string;
  about: string;
  value: string;
  unit: string;
  /** What leaves here with an answer, without going further. */
  exit?: string;
  children?: ReactNode;
}

function Stage({ name, about, value, unit, exit, children }: StageProps) {
  return (
    <li className="stage">
      <div className="stage-box">
        <h3>{name}</h3>
        <p className="stage-value">
          {value} <small>{unit}</small>
        </p>
        {children}
        <p className="hint">{about}</p>
      </div>
      {exit && (
        <p className="exit">
          <span className="sr">Leaves here: </span>
          {exit}
        </p>
      )}
    </li>
  );
}

function Path({ document }: { document: Document }) {
  const { service, live, totals, cache } = document;
  const all = points(document.timeline);
  const { answers } = totals;
  return (
    <ol className="path" aria-label="A request's way">
      <Stage
        name="HTTP and guard"
        about="OpenAI's routes; keys decide, validation before anything is computed."
        value={rate(recentRate(all, (point) => point.answers, 60))}
        unit="answers/s, last minute"
        exit={`${count(totals.client_errors)} answered 4xx`}
      />
      <Stage
        name="Exact cache"
        about="The same request, parameters and tenant: in this process, then in the store."
        value={count(cache?.entries ?? 0)}
        unit={`entries, ${bytes(cache?.bytes ?? 0)}`}
        exit={`${count(answers.exact ?? 0)} answered`}
      />
      <Stage
        name="Single flight"
        about="Identical requests that arrive together are generated once."
        value={count(cache?.coalesced ?? 0)}
        unit="followed another"
        exit={`${count(answers.coalesced ?? 0)} answered`}
      />
      <Stage
        name="Semantic cache"
        about={`Cosine of at least ${service.similarity_threshold.toFixed(2)}, then the verifier (${service.verifier}).`}
        value={count(cache?.indexed ?? 0)}
        unit="questions indexed"
        exit={`${count(answers.semantic ?? 0)} answered, ${count(cache?.nearMisses ?? 0)} near misses`}
      />
      <Stage
        name="Queue"
        about={`Priority, expected cost and age; at most ${count(service.queue_max_requests)} requests. An idle engine waits ${service.max_wait_ms} ms for company.`}
        value={count(live.waiting)}
        unit={`waiting, ${count(live.waiting_tokens)} tokens`}
        exit={`${count(sum(totals.rejected))} turned away`}
      />
      <Stage
        name="Engine"
        about={`${service.engine.family ?? "Loading"} on ${service.engine.device ?? "…"}, ${service.engine.dtype ?? ""} ${service.engine.numerics ?? ""}; ${count(live.engine_steps)} steps so far, the latest took ${latency(live.step_ms)}.`}
        value={`${live.running} / ${live.slots}`}
        unit="slots in use"
        exit={`${count((answers.miss ?? 0) + (answers.bypass ?? 0))} generated`}
      >
        <Slots running={live.running} slots={live.slots} />
      </Stage>
    </ol>
  );
}

export function Architecture({ document }: { document: Document }) {
  const { service, replica, live, cache } = document;
  const store = service.store.state;
  return (
    <div className="stack">
      <Card title="A request's way" hint="With this replica's numbers, live">
        <Path document={document} />
      </Card>
      <div className="grid three">
        <Card title="Replica" hint="Every number on these pages is of this process alone">
          <dl className="stats">
            <Stat label="name" value={replica.name} />
            <Stat label="id" value={replica.id} />
            <Stat label="up since" value={clock(replica.started)} note={duration(document.uptime_seconds)} />
            <Stat label="version" value={replica.version} />
          </dl>
        </Card>
        <Card title="Model and engine" hint="What is loaded">
          <dl className="stats">
            <Stat label="model" value={service.model} note={service.engine.family ?? service.engine.state} />
            <Stat label="context" value={count(service.engine.context_length ?? 0)} note="tokens" />
            <Stat
              label="batch"
              value={String(service.max_batch_size)}
              note={`${service.batching_mode}, ${service.max_wait_ms} ms`}
            />
            <Stat
              label="KV memory"
              value={live.kv_total ? share(live.kv_used / live.kv_total) : "–"}
              note={
                live.kv_total ? `${count(live.kv_used)} of ${count(live.kv_total)} blocks` : "not managed"
              }
            />
          </dl>
        </Card>
        <Card title="Store" hint="Shared by all replicas; every answer expires">
          <dl className="stats">
            <Stat label="kind" value={store} />
            <Stat
              label="reachable"
              value={service.store.reachable === undefined ? "–" : service.store.reachable ? "yes" : "no"}
            />
            <Stat label="local copy" value={cache?.store.freshness ?? "–"} />
            <Stat label="kept for" value={duration(service.cache_ttl_seconds)} />
          </dl>
        </Card>
      </div>
    </div>
  );
}
