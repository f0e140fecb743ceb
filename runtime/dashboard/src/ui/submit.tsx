interface SubmitProps {
  label: string;
  /** What the form began and is still under way; it can be stopped. */
  running: AbortController | null;
  disabled?: boolean;
}

/** A form's button, and Stop while what it began runs. Two buttons, told apart by their keys: one that became
 *  the other while it is clicked would submit the form again. */
export function Submit({ label, running, disabled = false }: SubmitProps) {
  return running ? (
    <button key="stop" type="button" onClick={() => running.abort()}>
      Stop
    </button>
  ) : (
    <button key="submit" type="submit" className="primary" disabled={disabled}>
      {label}
    </button>
  );
}
