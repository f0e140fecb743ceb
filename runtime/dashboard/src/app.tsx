import { useEffect, useRef } from "react";
import { current } from "./data/replicas";
import { useStore } from "./data/store";
import type { Document } from "./data/types";
import { Architecture } from "./pages/architecture";
import { CachePage } from "./pages/cache";
import { LoadPage } from "./pages/load";
import { Overview } from "./pages/overview";
import { Playground } from "./pages/playground";
import { Requests } from "./pages/requests";
import { Unlock } from "./pages/unlock";
import { PAGES, type PageId, usePage } from "./routes";
import { Navigation, Top } from "./shell";

function Page({ page, document }: { page: PageId; document: Document }) {
  return (
    <>
      {page === "overview" && <Overview document={document} />}
      {page === "requests" && <Requests document={document} />}
      {page === "cache" && <CachePage document={document} />}
      {page === "architecture" && <Architecture document={document} />}
      {/* These two hold what somebody typed and what still runs. */}
      <div hidden={page !== "playground"}>
        <Playground document={document} />
      </div>
      <div hidden={page !== "load"}>
        <LoadPage />
      </div>
    </>
  );
}

function Notices({
  trouble,
  notice,
  document,
}: {
  trouble: string;
  notice: string;
  document: Document | null;
}) {
  const starting = document && !document.service.ready ? document.service.reason : "";
  const all = [
    trouble && document ? `${trouble} These numbers are the last that arrived.` : trouble,
    notice,
    starting,
  ];
  return (
    <div role="status" className="notices">
      {all.filter(Boolean).map((text) => (
        <p key={text}>{text}</p>
      ))}
    </div>
  );
}

export function App() {
  const { replicas, access, trouble, keyRefused } = useStore();
  const page = usePage();
  const main = useRef<HTMLElement>(null);
  const before = useRef(page);
  const title = PAGES.find(({ id }) => id === page)?.title ?? "";
  const document = current(replicas)?.document ?? null;
  const model = document?.service.model;

  useEffect(() => {
    window.document.title = [title, model, "Ferry"].filter(Boolean).join(" · ");
    if (before.current !== page) main.current?.focus();
    before.current = page;
  }, [title, model, page]);

  if (access === "locked")
    return (
      <main className="center">
        <Unlock trouble={trouble} refused={keyRefused} />
      </main>
    );
  return (
    <div className="shell">
      <button type="button" className="skip" onClick={() => main.current?.focus()}>
        Skip to the page
      </button>
      <Navigation page={page} />
      <main id="main" ref={main} tabIndex={-1}>
        <Top title={title} document={document} replicas={replicas} />
        <Notices trouble={trouble} notice={replicas.notice} document={document} />
        {document ? <Page page={page} document={document} /> : <p className="empty">Asking the server …</p>}
      </main>
    </div>
  );
}
