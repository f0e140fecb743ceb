import { Area, AreaChart } from "recharts";
import type { Point } from "../data/derive";
import { clock, compact, count, rate, share } from "../data/format";
import type { Document } from "../data/types";
import { FRAME, timeAxes } from "../ui/chart";
import { Figure } from "../ui/figure";
import { Fitted } from "../ui/fitted";

const MOST_DRAWN = 32;

/** One square a slot, filled while a sequence runs in it. */
export function Slots({ running, slots }: { running: number; slots: number }) {
  if (slots > MOST_DRAWN) return null;
  return (
    <div className="slots" aria-hidden="true">
      {Array.from({ length: slots }, (_, slot) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a slot is its number
        <i key={slot} className={slot < running ? "busy" : ""} />
      ))}
    </div>
  );
}

export function Meter({
  label,
  value,
  most,
  text,
}: {
  label: string;
  value: number;
  most: number;
  text: string;
}) {
  const part = most ? Math.min(1, value / most) : 0;
  return (
    <div className="meter">
      <span>{label}</span>
      <b>{text}</b>
      <i aria-hidden="true">
        <i style={{ width: `${part * 100}%` }} />
      </i>
    </div>
  );
}

export function Queue({ document, points, span }: { document: Document; points: Point[]; span: number }) {
  const { live, service } = document;
  return (
    <Figure
      title="Queue and slots"
      hint="Peaks of every two seconds"
      summary={`${live.running} of ${live.slots} slots run, ${live.waiting} requests wait.`}
      legend={[
        { name: "Running", color: "var(--series-1)" },
        { name: "Waiting", color: "var(--series-2)" },
      ]}
      rows={points.toReversed()}
      columns={[
        { title: "Time", of: (point) => clock(point.time) },
        { title: "Running", of: (point) => count(point.running) },
        { title: "Waiting", of: (point) => count(point.waiting) },
        { title: "Refused per second", of: (point) => rate(point.refused) },
      ]}
    >
      <div className="meters">
        <div>
          <Meter
            label="Slots"
            value={live.running}
            most={live.slots}
            text={`${live.running} / ${live.slots}`}
          />
        </div>
        <Meter
          label="Queue"
          value={live.waiting}
          most={service.queue_max_requests}
          text={`${count(live.waiting)} / ${count(service.queue_max_requests)}`}
        />
        <Meter
          label="KV memory"
          value={live.kv_used}
          most={live.kv_total}
          text={live.kv_total ? share(live.kv_used / live.kv_total) : "–"}
        />
      </div>
      <div className="chart-body">
        <Fitted>
          <AreaChart data={points} margin={FRAME} accessibilityLayer={false}>
            {timeAxes({
              span,
              format: compact,
              whole: true,
              lines: (point) => [
                ["Running", "var(--series-1)", count(point.running)],
                ["Waiting", "var(--series-2)", count(point.waiting)],
              ],
            })}
            {(["running", "waiting"] as const).map((key, index) => (
              <Area
                key={key}
                dataKey={key}
                type="stepAfter"
                stroke={`var(--series-${index + 1})`}
                fill={`var(--series-${index + 1})`}
                fillOpacity={0.15}
                strokeWidth={1.5}
                isAnimationActive={false}
              />
            ))}
          </AreaChart>
        </Fitted>
      </div>
    </Figure>
  );
}
