import { Bar, BarChart, CartesianGrid, LabelList, XAxis, YAxis } from "recharts";
import { batchBars } from "../data/derive";
import { compact, count, share } from "../data/format";
import type { Document } from "../data/types";
import { Figure } from "../ui/figure";
import { Fitted } from "../ui/fitted";

export function BatchSizes({ document }: { document: Document }) {
  const bars = batchBars(document.batch, document.service.max_batch_size);
  const total = bars.reduce((sum, bar) => sum + bar.steps, 0);
  const tick = { fill: "var(--muted)", fontSize: 11 };
  return (
    <Figure
      title="Batch sizes"
      hint={`Decode steps by the rows they computed; at most ${document.service.max_batch_size}`}
      summary={`${count(total)} decode steps, ${document.batch.mean.toFixed(2)} rows on average.`}
      rows={bars}
      columns={[
        { title: "Rows", of: (bar) => bar.label },
        { title: "Steps", of: (bar) => count(bar.steps) },
        { title: "Share", of: (bar) => share(total ? bar.steps / total : null) },
      ]}
      aside={
        <span className="figure-value" data-testid="mean-batch">
          {document.batch.mean.toFixed(2)}
          <small>mean</small>
        </span>
      }
    >
      <Fitted>
        <BarChart data={bars} margin={{ top: 20, right: 8, bottom: 0, left: 0 }} accessibilityLayer={false}>
          <CartesianGrid vertical={false} stroke="var(--line)" />
          <XAxis dataKey="label" tickLine={false} axisLine={{ stroke: "var(--line)" }} tick={tick} />
          <YAxis
            width={52}
            tickFormatter={compact}
            tickLine={false}
            axisLine={false}
            tick={tick}
            allowDecimals={false}
          />
          <Bar
            dataKey="steps"
            fill="var(--accent)"
            radius={[4, 4, 0, 0]}
            maxBarSize={44}
            isAnimationActive={false}
          >
            <LabelList
              dataKey="steps"
              position="top"
              formatter={(value) => (Number(value) > 0 ? compact(Number(value)) : "")}
              fill="var(--muted)"
              fontSize={11}
            />
          </Bar>
        </BarChart>
      </Fitted>
    </Figure>
  );
}
