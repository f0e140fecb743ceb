import { count, latency, rate } from "../data/format";
import type { Reply } from "../data/generate";
import { Stat } from "../ui/card";
import { SourceBadge } from "../ui/source";
import { WrongAnswer } from "./feedback";

function speed(reply: Reply): string {
  if (reply.tokens === null || reply.totalMs === null || reply.totalMs === 0) return "–";
  return `${rate((reply.tokens / reply.totalMs) * 1_000)}/s`;
}

function status(title: string, reply: Reply): string {
  switch (reply.state) {
    case "waiting":
      return `${title}: waiting for the first token.`;
    case "running":
      return `${title}: the answer arrives.`;
    case "stopped":
      return `${title}: stopped.`;
    case "failed":
      return `${title}: ${reply.problem}`;
    default:
      return `${title}: complete after ${latency(reply.totalMs)}.`;
  }
}

/** One answer as it arrives, with what the cache said about it. */
export function ReplyPane({
  title,
  hint,
  prompt,
  reply,
}: {
  title: string;
  hint: string;
  prompt: string;
  reply: Reply;
}) {
  const cached = reply.source !== null && ["exact", "semantic", "coalesced"].includes(reply.source);
  return (
    <section className="reply" aria-label={title} aria-busy={reply.state === "running"}>
      <header>
        <h3>{title}</h3>
        {reply.source ? <SourceBadge source={reply.source} /> : <span className="faint">{hint}</span>}
      </header>
      <p className="sr" role="status">
        {status(title, reply)}
      </p>
      {reply.state === "failed" ? (
        <p className="problem">{reply.problem}</p>
      ) : (
        <div className={`reply-text ${reply.state}`} data-testid="reply-text">
          {reply.text}
        </div>
      )}
      <dl className="stats">
        <Stat label="first token" value={latency(reply.firstTokenMs)} />
        <Stat label="whole answer" value={latency(reply.totalMs)} />
        <Stat label="tokens" value={reply.tokens === null ? "–" : count(reply.tokens)} />
        <Stat label="speed" value={speed(reply)} />
        <Stat label="ended by" value={reply.finishReason || "–"} />
      </dl>
      {reply.headers.length > 0 && (
        <details open>
          <summary>Response headers</summary>
          <dl className="headers">
            {reply.headers.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      {reply.state === "done" && cached && reply.entry && <WrongAnswer entry={reply.entry} about={prompt} />}
    </section>
  );
}
