import { CartesianGrid, Scatter, ScatterChart, XAxis, YAxis } from "recharts";
import { decades, known } from "../data/derive";
import { count, latency, latencyTick, rate } from "../data/format";
import { answersPerSecond, type Outcome, PATTERNS } from "../data/load";
import { type LoadReport, SOURCES, type Source, type Spread } from "../data/types";
import { Card, Empty, Stat } from "../ui/card";
import { Figure } from "../ui/figure";
import { Fitted } from "../ui/fitted";
import { Segments } from "../ui/segments";
import { SOURCE_NAMES } from "../ui/source";

function nameOf(result: string): string {
  return SOURCE_NAMES[result as Source] ?? result.replaceAll("_", " ");
}

function colorOf(result: string): string {
  return (SOURCES as readonly string[]).includes(result) ? `var(--${result})` : "var(--bad)";
}

const COLUMNS = ["mean", "p50", "p95", "p99"] as const;

function Spreads({ report }: { report: LoadReport }) {
  const rows: [string, Spread][] = [
    ["All answers", report.all],
    ["From the cache", report.hits],
    ["Generated", report.generated],
  ];
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Latency</th>
          {["count", ...COLUMNS].map((name) => (
            <th scope="col" className="number" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, spread]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td className="number">{count(spread.count)}</td>
            {COLUMNS.map((column) => (
              <td className="number" key={column}>
                {latency(known(spread, column))}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Samples({ outcome }: { outcome: Outcome }) {
  const results = [...new Set(outcome.samples.map(([, , result]) => result))];
  const tick = { fill: "var(--muted)", fontSize: 11 };
  const range = decades(outcome.samples.map(([, ms]) => ms));
  return (
    <Figure
      title="Every request"
      hint="When it ended, and how long it took"
      summary={`${outcome.samples.length} requests; the table lists them.`}
      legend={results.map((result) => ({ name: nameOf(result), color: colorOf(result) }))}
      rows={outcome.samples}
      columns={[
        { title: "Ended after", of: ([at]) => `${at.toFixed(2)} s` },
        { title: "Latency", of: ([, ms]) => latency(ms) },
        { title: "Answer", of: ([, , result]) => nameOf(result) },
      ]}
      className="wide"
    >
      <Fitted>
        <ScatterChart margin={{ top: 8, right: 12, bottom: 0, left: 0 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--line)" vertical={false} />
          <XAxis
            dataKey="0"
            type="number"
            unit=" s"
            tick={tick}
            tickLine={false}
            axisLine={{ stroke: "var(--line)" }}
          />
          <YAxis
            dataKey="1"
            width={52}
            scale="log"
            domain={range}
            tickFormatter={latencyTick}
            tick={tick}
            tickLine={false}
            axisLine={false}
          />
          {results.map((result) => (
            <Scatter
              key={result}
              data={outcome.samples.filter(([, , other]) => other === result)}
              fill={colorOf(result)}
              fillOpacity={0.75}
              isAnimationActive={false}
            />
          ))}
        </ScatterChart>
      </Fitted>
    </Figure>
  );
}

function Progress({ report, running }: { report: LoadReport; running: boolean }) {
  const done = report.ended / report.asked;
  const words = report.over
    ? report.stopped
      ? "Stopped: the time was up"
      : "Complete"
    : running
      ? "Running"
      : "Stopped";
  return (
    <div className="progress">
      <p>
        {/* Said aloud when it changes; the count beside it changes too often for that. */}
        <b role="status">{words}</b> · {count(report.ended)} of {count(report.asked)} requests
      </p>
      <progress value={done} max={1} aria-label="Requests that have ended" />
    </div>
  );
}

export function LoadResult({ outcome, running }: { outcome: Outcome; running: boolean }) {
  const { report } = outcome;
  return (
    <>
      <Card title="Result" {...(report ? { hint: `Seed ${report.seed}` } : {})}>
        {outcome.problem && <p className="problem">{outcome.problem}</p>}
        {!report && !outcome.problem && <Empty>The first requests are on their way.</Empty>}
        {report && (
          <>
            <Progress report={report} running={running} />
            <dl className="stats">
              <Stat label="answers per second" value={rate(answersPerSecond(report))} />
              <Stat
                label="tokens per second"
                value={rate(report.output_tokens / Math.max(report.seconds, 0.001))}
              />
              <Stat label="p95" value={latency(known(report.all, "p95"))} />
              <Stat label="duration" value={`${report.seconds.toFixed(1)} s`} />
            </dl>
            <Segments
              unit="requests"
              parts={Object.entries(report.results).map(([result, value]) => ({
                name: nameOf(result),
                color: colorOf(result),
                value,
              }))}
            />
            <div className="scroll">
              <Spreads report={report} />
            </div>
          </>
        )}
      </Card>
      {outcome.samples.length > 0 && <Samples outcome={outcome} />}
    </>
  );
}

export function Runs({ runs }: { runs: Outcome[] }) {
  const name = (outcome: Outcome) =>
    PATTERNS.find((pattern) => pattern.value === outcome.wish.pattern)?.label;
  return (
    <Card title="Runs of this tab" hint="Newest first">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys */}
      <section className="scroll" aria-label="Runs of this tab" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Traffic</th>
              <th scope="col" className="number">
                Requests
              </th>
              <th scope="col" className="number">
                At a time
              </th>
              <th scope="col" className="number">
                Not answered
              </th>
              <th scope="col" className="number">
                Answers/s
              </th>
              <th scope="col" className="number">
                p50
              </th>
              <th scope="col" className="number">
                p95
              </th>
            </tr>
          </thead>
          <tbody>
            {runs.map(
              (outcome) =>
                outcome.report && (
                  <tr key={`${outcome.report.seed} ${outcome.report.seconds}`}>
                    <td>{name(outcome)}</td>
                    <td className="number">{count(outcome.report.ended)}</td>
                    <td className="number">{outcome.wish.concurrency}</td>
                    <td className="number">{count(outcome.report.ended - outcome.report.all.count)}</td>
                    <td className="number">{rate(answersPerSecond(outcome.report))}</td>
                    <td className="number">{latency(known(outcome.report.all, "p50"))}</td>
                    <td className="number">{latency(known(outcome.report.all, "p95"))}</td>
                  </tr>
                ),
            )}
          </tbody>
        </table>
      </section>
    </Card>
  );
}
