import { Line, LineChart } from "recharts";
import { decades, known, type Point } from "../data/derive";
import { clock, count, latency, latencyTick } from "../data/format";
import type { Spread } from "../data/types";
import { Stat } from "../ui/card";
import { FRAME, timeAxes } from "../ui/chart";
import { Figure } from "../ui/figure";
import { Fitted } from "../ui/fitted";

type Key = "p50" | "p95" | "p99" | "first50" | "first95";

interface Curve {
  key: Key;
  name: string;
  color: string;
}

interface PercentilesProps {
  title: string;
  hint: string;
  spread: Spread;
  curves: Curve[];
  points: Point[];
  span: number;
}

/** Curves per bucket, and the exact percentiles of the latest requests as /metrics has them. */
function Percentiles({ title, hint, spread, curves, points, span }: PercentilesProps) {
  const range = decades(points.flatMap((point) => curves.map((curve) => point[curve.key])));
  return (
    <Figure
      title={title}
      hint={hint}
      summary={`Median ${latency(known(spread, "p50"))}, 95th percentile ${latency(known(spread, "p95"))}, 99th ${latency(known(spread, "p99"))} over the latest ${spread.count}.`}
      legend={curves.map(({ name, color }) => ({ name, color }))}
      rows={points.filter((point) => curves.some((curve) => point[curve.key] !== null)).toReversed()}
      columns={[
        { title: "Time", of: (point) => clock(point.time) },
        ...curves.map((curve) => ({ title: curve.name, of: (point: Point) => latency(point[curve.key]) })),
      ]}
      aside={null}
    >
      <dl className="stats">
        <Stat label="p50" value={latency(known(spread, "p50"))} />
        <Stat label="p95" value={latency(known(spread, "p95"))} />
        <Stat label="p99" value={latency(known(spread, "p99"))} />
        <Stat label="of the latest" value={count(spread.count)} />
      </dl>
      <div className="chart-body">
        <Fitted>
          <LineChart data={points} margin={FRAME} accessibilityLayer={false}>
            {timeAxes({
              span,
              format: latencyTick,
              decades: range,
              lines: (point) =>
                curves
                  .filter((curve) => point[curve.key] !== null)
                  .map((curve) => [curve.name, curve.color, latency(point[curve.key])]),
            })}
            {curves.map((curve) => (
              <Line
                key={curve.key}
                dataKey={curve.key}
                type="monotone"
                stroke={curve.color}
                strokeWidth={1.75}
                dot={{ r: 1.5, fill: curve.color, strokeWidth: 0 }}
                connectNulls={false}
                isAnimationActive={false}
              />
            ))}
          </LineChart>
        </Fitted>
      </div>
    </Figure>
  );
}

export function Latency({ points, spread, span }: { points: Point[]; spread: Spread; span: number }) {
  return (
    <Percentiles
      title="Latency"
      hint="From arrival to the end of the answer, hits included"
      spread={spread}
      points={points}
      span={span}
      curves={[
        { key: "p50", name: "p50", color: "var(--series-1)" },
        { key: "p95", name: "p95", color: "var(--series-2)" },
        { key: "p99", name: "p99", color: "var(--series-3)" },
      ]}
    />
  );
}

export function FirstToken({ points, spread, span }: { points: Point[]; spread: Spread; span: number }) {
  return (
    <Percentiles
      title="Time to first token"
      hint="Of answers that the engine generated"
      spread={spread}
      points={points}
      span={span}
      curves={[
        { key: "first50", name: "p50", color: "var(--series-1)" },
        { key: "first95", name: "p95", color: "var(--series-2)" },
      ]}
    />
  );
}
