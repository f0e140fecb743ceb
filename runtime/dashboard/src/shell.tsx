import { hasKey } from "./data/api";
import { duration } from "./data/format";
import { labels, type Replicas } from "./data/replicas";
import { lock, show } from "./data/store";
import type { Document } from "./data/types";
import { PAGES, type PageId } from "./routes";
import { applyTheme, type Theme, useTheme } from "./theme";
import { Icon, Mark } from "./ui/icons";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export function Navigation({ page }: { page: PageId }) {
  return (
    <nav aria-label="Pages">
      <a className="brand" href="#/overview">
        <Mark />
        <span>Ferry</span>
      </a>
      <ul>
        {PAGES.map(({ id, title }) => (
          <li key={id}>
            <a href={`#/${id}`} aria-current={id === page ? "page" : undefined}>
              <Icon name={id} />
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function ThemeButton() {
  const theme = useTheme();
  return (
    <button
      type="button"
      className="quiet icon-button"
      aria-label={`Colours: ${theme}. Change to ${NEXT[theme]}.`}
      title={`Colours: ${theme}`}
      onClick={() => applyTheme(NEXT[theme])}
    >
      <Icon name={theme} />
    </button>
  );
}

function ReplicaChoice({ replicas, document }: { replicas: Replicas; document: Document }) {
  const all = labels(replicas);
  if (all.length < 2) {
    return (
      <span className="replica">
        <span className="faint">replica</span> {document.replica.name}
      </span>
    );
  }
  return (
    <label className="replica">
      <span className="faint">replica</span>
      <select value={document.replica.id} onChange={(event) => show(event.target.value)}>
        {all.map(({ id, label }) => (
          <option key={id} value={id}>
            {label}
          </option>
        ))}
      </select>
      <span className="faint">of {all.length} seen</span>
    </label>
  );
}

interface TopProps {
  title: string;
  document: Document | null;
  replicas: Replicas;
}

export function Top({ title, document, replicas }: TopProps) {
  return (
    <header className="top">
      <div className="top-title">
        <h1>{title}</h1>
        {document && (
          <p>
            <span className={`state ${document.service.ready ? "ready" : "waiting"}`}>
              {document.service.state}
            </span>
            <b>{document.service.model}</b>
            <ReplicaChoice replicas={replicas} document={document} />
            <span className="faint">up {duration(document.uptime_seconds)}</span>
          </p>
        )}
      </div>
      <div className="top-tools">
        {hasKey() && (
          <button type="button" className="quiet" onClick={lock}>
            <Icon name="key" />
            Forget key
          </button>
        )}
        <ThemeButton />
      </div>
    </header>
  );
}
