import { hitRate, points, recentRate, saved } from "../data/derive";
import { compact, latency, rate, share } from "../data/format";
import type { Document } from "../data/types";
import { BatchSizes } from "../panels/batches";
import { Near } from "../panels/compared";
import { HitRate, SavedTokens } from "../panels/hits";
import { FirstToken, Latency } from "../panels/latency";
import { Queue } from "../panels/queue";
import { Recent } from "../panels/recent";
import { Throughput, Tokens } from "../panels/throughput";
import { Card } from "../ui/card";
import { spanOf } from "../ui/chart";
import { Sparkline } from "../ui/sparkline";

interface TileProps {
  label: string;
  value: string;
  unit?: string;
  note: string;
  trend: (number | null)[];
}

function Tile({ label, value, unit, note, trend }: TileProps) {
  return (
    <div className="tile">
      <dt>{label}</dt>
      <dd>
        <span className="value">
          {value}
          {unit && <small>{unit}</small>}
        </span>
        <span className="note">{note}</span>
        <Sparkline values={trend} />
      </dd>
    </div>
  );
}

export function Overview({ document }: { document: Document }) {
  const all = points(document.timeline);
  const span = spanOf(all, document.uptime_seconds);
  const shown = all.filter((point) => point.age > -span);
  const { latency: ended, first_token: first, live } = document;
  const hits = (point: (typeof all)[number]) => point.exact + point.semantic + point.coalesced;
  return (
    <>
      <dl className="tiles">
        <Tile
          label="Answers"
          value={rate(recentRate(all, (point) => point.answers, 60))}
          unit="/s"
          note="last minute"
          trend={shown.map((point) => point.answers)}
        />
        <Tile
          label="Latency p95"
          value={latency(ended.count ? ended.p95 : null)}
          note={`latest ${ended.count}`}
          trend={shown.map((point) => point.p95)}
        />
        <Tile
          label="First token p95"
          value={latency(first.count ? first.p95 : null)}
          note={`latest ${first.count} generated`}
          trend={shown.map((point) => point.first95)}
        />
        <Tile
          label="Hit rate"
          value={share(hitRate(document.totals.answers))}
          note="since start"
          trend={shown.map(hits)}
        />
        <Tile
          label="Tokens saved"
          value={compact(saved(document))}
          note="since start"
          trend={shown.map(hits)}
        />
        <Tile
          label="Slots in use"
          value={`${live.running}`}
          unit={` / ${live.slots}`}
          note={`${compact(live.waiting)} waiting`}
          trend={shown.map((point) => point.running)}
        />
      </dl>
      <div className="grid">
        <Throughput points={all} span={span} />
        <Latency points={all} span={span} spread={ended} />
        <FirstToken points={all} span={span} spread={first} />
        <HitRate document={document} />
        <BatchSizes document={document} />
        <Queue document={document} points={all} span={span} />
        <Tokens points={all} span={span} />
        <SavedTokens document={document} />
        <Near
          document={document}
          accepted={false}
          most={3}
          title="Near misses"
          hint="Close to a stored question, and refused by the verifier"
          empty="No question has come close to a stored one without being answered from it."
        />
        <Card
          title="Recent requests"
          hint="Newest first, prompts shortened"
          className="wide"
          aside={<a href="#/requests">All of them</a>}
        >
          <Recent document={document} most={8} />
        </Card>
      </div>
    </>
  );
}
