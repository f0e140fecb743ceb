// What every chart over time has in common: axes, grid, the box that follows the pointer.

import type { ReactNode } from "react";
import { CartesianGrid, Tooltip, XAxis, YAxis } from "recharts";
import type { Point } from "../data/derive";
import { age, clock } from "../data/format";

/** Not more than there has been: minutes since the start, five at most. */
export function spanOf(points: Point[], uptimeSeconds: number): number {
  const longest = -(points[0]?.age ?? -300) + 2;
  return Math.min(longest, Math.max(60, Math.ceil(uptimeSeconds / 60) * 60));
}

function ticksOf(span: number): number[] {
  const step = span <= 60 ? 15 : span <= 120 ? 30 : 60;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => index * step - span);
}

interface HoverProps {
  active?: boolean;
  payload?: readonly { payload?: Point }[];
  lines: (point: Point) => [name: string, color: string, value: string][];
}

function Hover({ active, payload, lines }: HoverProps) {
  const point = payload?.[0]?.payload;
  if (!active || !point) return null;
  return (
    <div className="hover">
      <b>{clock(point.time)}</b>
      {lines(point).map(([name, color, value]) => (
        <span key={name}>
          <i className="dot" style={{ background: color }} />
          {name}
          <b>{value}</b>
        </span>
      ))}
    </div>
  );
}

interface AxesOptions {
  /** Seconds that are shown. */
  span: number;
  format: (value: number) => string;
  lines: HoverProps["lines"];
  whole?: boolean;
  /** Powers of ten around the values, for a logarithmic axis. */
  decades?: [number, number];
}

/** Children for a Recharts chart whose data are Points. Not a component: Recharts looks at its children. */
export function timeAxes({ span, format, lines, decades, whole = false }: AxesOptions): ReactNode[] {
  return [
    <CartesianGrid key="grid" vertical={false} stroke="var(--line)" />,
    <XAxis
      key="x"
      dataKey="age"
      type="number"
      domain={[-span, 0]}
      allowDataOverflow
      ticks={ticksOf(span)}
      tickFormatter={age}
      tickLine={false}
      axisLine={{ stroke: "var(--line)" }}
      tick={{ fill: "var(--muted)", fontSize: 11 }}
      minTickGap={24}
    />,
    <YAxis
      key="y"
      width={52}
      tickFormatter={format}
      tickLine={false}
      axisLine={false}
      tick={{ fill: "var(--muted)", fontSize: 11 }}
      allowDecimals={!whole}
      {...(decades ? { scale: "log" as const, domain: decades, ticks: powers(decades) } : {})}
    />,
    <Tooltip
      key="hover"
      cursor={{ stroke: "var(--muted)", strokeDasharray: "3 3" }}
      isAnimationActive={false}
      content={(props) => <Hover {...(props as unknown as Omit<HoverProps, "lines">)} lines={lines} />}
    />,
  ];
}

export const FRAME = { top: 8, right: 12, bottom: 0, left: 0 };

function powers([from, to]: [number, number]): number[] {
  const ticks: number[] = [];
  for (let tick = from; tick <= to; tick *= 10) ticks.push(tick);
  return ticks;
}
