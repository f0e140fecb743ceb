import { Area, AreaChart } from "recharts";
import { type Point, recentRate } from "../data/derive";
import { clock, rate, tick } from "../data/format";
import { SOURCES } from "../data/types";
import { FRAME, timeAxes } from "../ui/chart";
import { Figure } from "../ui/figure";
import { Fitted } from "../ui/fitted";
import { SOURCE_NAMES } from "../ui/source";

export function Throughput({ points, span }: { points: Point[]; span: number }) {
  const now = recentRate(points, (point) => point.answers, 60);
  return (
    <Figure
      title="Throughput"
      hint="Answers per second, by where they came from"
      summary={`${rate(now)} answers per second over the last minute. The table has every two seconds of the last five minutes.`}
      legend={SOURCES.map((source) => ({ name: SOURCE_NAMES[source], color: `var(--${source})` }))}
      rows={points.toReversed()}
      columns={[
        { title: "Time", of: (point) => clock(point.time) },
        ...SOURCES.map((source) => ({
          title: SOURCE_NAMES[source],
          of: (point: Point) => rate(point[source]),
        })),
        { title: "Refused", of: (point) => rate(point.refused) },
        { title: "Failed", of: (point) => rate(point.unanswered) },
      ]}
      className="wide"
    >
      <Fitted>
        <AreaChart data={points} margin={FRAME} accessibilityLayer={false}>
          {timeAxes({
            span,
            format: tick,
            lines: (point) => [
              ...SOURCES.filter((source) => point[source] > 0).map((source): [string, string, string] => [
                SOURCE_NAMES[source],
                `var(--${source})`,
                `${rate(point[source])}/s`,
              ]),
              ["All", "var(--ink)", `${rate(point.answers)}/s`],
            ],
          })}
          {SOURCES.map((source) => (
            <Area
              key={source}
              dataKey={source}
              stackId="answers"
              type="stepAfter"
              stroke="none"
              fill={`var(--${source})`}
              fillOpacity={0.8}
              isAnimationActive={false}
            />
          ))}
        </AreaChart>
      </Fitted>
    </Figure>
  );
}

export function Tokens({ points, span }: { points: Point[]; span: number }) {
  const now = recentRate(points, (point) => point.tokens, 60);
  return (
    <Figure
      title="Generated tokens"
      hint="Tokens per second from the engine"
      summary={`${rate(now)} tokens per second over the last minute.`}
      rows={points.toReversed()}
      columns={[
        { title: "Time", of: (point) => clock(point.time) },
        { title: "Tokens per second", of: (point) => rate(point.tokens) },
        { title: "Rows per step", of: (point) => rate(point.rows) },
      ]}
    >
      <Fitted>
        <AreaChart data={points} margin={FRAME} accessibilityLayer={false}>
          {timeAxes({
            span,
            format: tick,
            lines: (point) => [
              ["Tokens", "var(--accent)", `${rate(point.tokens)}/s`],
              ["Rows per step", "var(--faint)", rate(point.rows)],
            ],
          })}
          <Area
            dataKey="tokens"
            type="stepAfter"
            stroke="var(--accent)"
            fill="var(--accent)"
            fillOpacity={0.2}
            strokeWidth={1.5}
            isAnimationActive={false}
          />
        </AreaChart>
      </Fitted>
    </Figure>
  );
}
