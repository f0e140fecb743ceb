import { useState } from "react";
import { giveFeedback } from "../data/api";
import { refresh } from "../data/store";

type Stage = "ready" | "sending" | "done" | "failed";

/** One click: the stored answer was wrong, so no replica may give it again. */
export function WrongAnswer({ entry, about }: { entry: string; about: string }) {
  const [stage, setStage] = useState<Stage>("ready");
  const [problem, setProblem] = useState("");

  async function send() {
    setStage("sending");
    try {
      await giveFeedback(entry, "wrong");
      setStage("done");
      refresh();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : "It could not be sent.");
      setStage("failed");
    }
  }

  return (
    <span className="feedback" role="status">
      {stage === "done" ? (
        // The button had the focus and is gone; without this the keyboard would start again from the top.
        <span className="done" tabIndex={-1} ref={(said) => said?.focus({ preventScroll: true })}>
          Evicted
        </span>
      ) : (
        <button type="button" className="small" disabled={stage === "sending"} onClick={send}>
          Wrong answer<span className="sr">: evict the stored answer to “{about}”</span>
        </button>
      )}
      {stage === "failed" && <span className="problem">{problem}</span>}
    </span>
  );
}
