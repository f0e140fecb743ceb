// Numbers for people. One way each, so that the same value reads the same everywhere. A number and its
// unit are held together by a no-break space.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

export function compact(value: number): string {
  return Math.abs(value) < 10_000 ? whole.format(Math.round(value)) : short.format(value);
}

export function rate(value: number): string {
  if (value === 0) return "0";
  if (value < 0.1) return value.toFixed(2);
  return value < 10 ? value.toFixed(1) : compact(value);
}

export function share(value: number | null): string {
  if (value === null) return "–";
  const percent = value * 100;
  return percent > 0 && percent < 10 ? `${percent.toFixed(1)}\u00a0%` : `${percent.toFixed(0)}\u00a0%`;
}

/** Milliseconds, in the unit that reads best. */
export function latency(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 10) return `${ms.toFixed(1)}\u00a0ms`;
  if (ms < 1_000) return `${ms.toFixed(0)}\u00a0ms`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(2)}\u00a0s` : `${(ms / 1_000).toFixed(1)}\u00a0s`;
}

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)}\u00a0s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}\u00a0min`;
  const minutes = Math.floor((seconds % 3_600) / 60);
  const hours = Math.floor(seconds / 3_600);
  if (hours >= 24) return `${Math.floor(hours / 24)}\u00a0d ${hours % 24}\u00a0h`;
  return minutes ? `${hours}\u00a0h ${minutes}\u00a0min` : `${hours}\u00a0h`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  let size = value;
  while (size >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1)}\u00a0${units[unit]}`;
}

export function clock(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toLocaleTimeString("en-GB");
}

export function ago(seconds: number): string {
  if (seconds < 2) return "now";
  return `${duration(seconds)} ago`;
}

/** For a time axis: "−3 min", "now". */
export function age(seconds: number): string {
  if (seconds === 0) return "now";
  return seconds % 60 === 0 ? `−${-seconds / 60}\u00a0min` : `−${-seconds}\u00a0s`;
}

/** For an axis of rates. */
export function tick(value: number): string {
  return value < 10_000 ? String(Number(value.toPrecision(3))) : short.format(value);
}

/** For a latency axis, whose ticks are round numbers. */
export function latencyTick(ms: number): string {
  return ms < 1_000 ? `${ms}\u00a0ms` : `${ms / 1_000}\u00a0s`;
}
