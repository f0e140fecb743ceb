import { useEffect, useRef, useState } from "react";
import { giveFeedback } from "../data/api";
import { refresh } from "../data/store";

type Stage = "ready" | "sending" | "done" | "failed";

/** One click: the stored answer was wrong, so no replica may give it again. */
export function WrongAnswer({ entry, about }: { entry: string; about: string }) {
  const [stage, setStage] = useState<Stage>("ready");
  const [problem, setProblem] = useState("");
  const said = useRef<HTMLSpanElement>(null);

  // The button had the focus and is gone: the keyboard goes on from here, and not from the page's top.
  useEffect(() => {
    if (stage === "done" && document.activeElement === document.body) {
      said.current?.focus({ preventScroll: true });
    }
  }, [stage]);

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
        <span className="done" tabIndex={-1} ref={said}>
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
