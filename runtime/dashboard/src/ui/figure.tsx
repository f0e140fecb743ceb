import { type ReactNode, useId, useState } from "react";
import { Card } from "./card";

export interface Column<Row> {
  title: string;
  of: (row: Row) => string;
}

interface FigureProps<Row> {
  title: string;
  hint?: string;
  /** What the picture shows, in a sentence, for those who do not see it. */
  summary: string;
  legend?: { name: string; color: string; dashed?: boolean }[];
  rows: Row[];
  columns: Column<Row>[];
  aside?: ReactNode;
  className?: string;
  children: ReactNode;
}

/** A chart in a card, and the same numbers as a table at a key press. */
export function Figure<Row>(props: FigureProps<Row>) {
  const { title, hint, summary, legend, rows, columns, children, className, aside } = props;
  const [asTable, setAsTable] = useState(false);
  const id = useId();
  const toggle = (
    <>
      {aside}
      <button
        type="button"
        className="quiet"
        aria-pressed={asTable}
        aria-controls={id}
        onClick={() => setAsTable(!asTable)}
      >
        Table<span className="sr"> of {title}</span>
      </button>
    </>
  );
  return (
    <Card title={title} aside={toggle} className={`figure ${className ?? ""}`} {...(hint ? { hint } : {})}>
      {legend && !asTable && (
        <ul className="legend">
          {legend.map(({ name, color, dashed }) => (
            <li key={name}>
              <i className={dashed ? "stroke dashed" : "dot"} style={{ background: color }} />
              {name}
            </li>
          ))}
        </ul>
      )}
      <div id={id}>
        {asTable ? (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys
          <section className="scroll chart" aria-label={`${title}, table`} tabIndex={0}>
            <table>
              <thead>
                <tr>
                  {columns.map((column) => (
                    <th key={column.title} scope="col">
                      {column.title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
                  <tr key={index}>
                    {columns.map((column) => (
                      <td key={column.title}>{column.of(row)}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        ) : (
          <figure>
            <figcaption className="sr">{summary}</figcaption>
            <div className="chart" aria-hidden="true">
              {children}
            </div>
          </figure>
        )}
      </div>
    </Card>
  );
}
