import { useId, useState } from "react";
import { unlock } from "../data/store";
import { Mark } from "../ui/icons";

/** Asks for an admin's key. It goes into this tab's memory and into the Authorization header, nowhere else. */
export function Unlock({ trouble, refused }: { trouble: string; refused: boolean }) {
  const [key, setKey] = useState("");
  const id = useId();
  return (
    <form
      className="unlock card"
      onSubmit={(event) => {
        event.preventDefault();
        unlock(key);
      }}
    >
      <Mark />
      <h1>Ferry</h1>
      <p className="hint">The numbers and prompts of this service are for its administrators.</p>
      <div className="field">
        <label htmlFor={id}>Admin key</label>
        <input
          id={id}
          type="password"
          autoComplete="off"
          spellCheck={false}
          value={key}
          aria-invalid={refused}
          aria-describedby={`${id}-note`}
          onChange={(event) => setKey(event.target.value)}
        />
      </div>
      <p id={`${id}-note`} className="hint" role="status">
        {refused ? (
          <span className="problem">{trouble || "This key was not accepted."}</span>
        ) : (
          "Kept in this tab's memory only: a reload forgets it."
        )}
      </p>
      <button type="submit" className="primary" disabled={!key.trim()}>
        Open the dashboard
      </button>
    </form>
  );
}
