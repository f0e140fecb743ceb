import { sum } from "../data/derive";
import { count } from "../data/format";
import type { Document } from "../data/types";
import { Recent } from "../panels/recent";
import { Card, Stat } from "../ui/card";

export function Requests({ document }: { document: Document }) {
  const { requests, rejected } = document.totals;
  return (
    <>
      <dl className="stats framed">
        <Stat label="answered" value={count(requests.success ?? 0)} />
        <Stat label="cancelled by the client" value={count(requests.cancelled ?? 0)} />
        <Stat label="timed out" value={count(requests.timeout ?? 0)} />
        <Stat label="failed" value={count(requests.error ?? 0)} />
        <Stat
          label="refused"
          value={count(requests.rejected ?? 0)}
          {...(sum(rejected) ? { note: Object.keys(rejected).join(", ") } : {})}
        />
      </dl>
      <Card
        title="Recent requests"
        hint={`The latest ${document.recent.length} of this replica, newest first. Prompts are shortened; answers are not kept here.`}
      >
        <Recent document={document} detailed />
      </Card>
    </>
  );
}
