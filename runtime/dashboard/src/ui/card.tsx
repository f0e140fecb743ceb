import { type ReactNode, useId } from "react";

interface CardProps {
  title: string;
  hint?: string;
  aside?: ReactNode;
  className?: string;
  children: ReactNode;
}

/** A titled region of a page. */
export function Card({ title, hint, aside, className = "", children }: CardProps) {
  const id = useId();
  return (
    <section className={`card ${className}`} aria-labelledby={id}>
      <header className="card-head">
        <div>
          <h2 id={id}>{title}</h2>
          {hint && <p className="hint">{hint}</p>}
        </div>
        {aside && <div className="card-aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}

export function Stat({ label, value, note }: { label: string; value: string; note?: string }) {
  return (
    <div className="stat">
      <dt>{label}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}
