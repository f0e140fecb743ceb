import { ago, clock, count, latency } from "../data/format";
import type { Document, RecentRequest } from "../data/types";
import { Empty } from "../ui/card";
import { SourceBadge } from "../ui/source";
import { WrongAnswer } from "./feedback";

function Outcome({ request }: { request: RecentRequest }) {
  if (request.outcome === "ok") return <SourceBadge source={request.cache} />;
  return <span className="badge bad">{request.outcome.replaceAll("_", " ")}</span>;
}

interface RecentProps {
  document: Document;
  most?: number;
  detailed?: boolean;
}

/** The feed: newest first, prompts shortened by the server. */
export function Recent({ document, most, detailed = false }: RecentProps) {
  const requests = document.recent.slice(0, most);
  if (!requests.length) return <Empty>Nothing has been asked since this replica started.</Empty>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keys
    <section className="scroll" aria-label="Recent requests" tabIndex={0}>
      <table className="feed">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Prompt</th>
            <th scope="col">Answer</th>
            <th scope="col" className="number">
              Latency
            </th>
            <th scope="col" className="number">
              Tokens
            </th>
            {detailed && <th scope="col">Route</th>}
            {detailed && <th scope="col">Tenant</th>}
            {detailed && (
              <th scope="col">
                <span className="sr">Feedback</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {requests.map((request) => (
            <tr key={request.request_id}>
              <td className="faint" title={clock(request.timestamp)}>
                {ago(Math.max(0, document.now - request.timestamp))}
              </td>
              <td className="prompt">{request.prompt}</td>
              <td>
                <Outcome request={request} />
              </td>
              <td className="number">{latency(request.latency_ms)}</td>
              <td className="number">
                {count(request.input_tokens)} → {count(request.output_tokens)}
              </td>
              {detailed && <td className="faint">{request.route}</td>}
              {detailed && <td className="faint">{request.tenant}</td>}
              {detailed && (
                <td>
                  {request.cached && request.entry && (
                    <WrongAnswer entry={request.entry} about={request.prompt} />
                  )}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
