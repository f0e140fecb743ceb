import type { ReactElement } from "react";
import { ResponsiveContainer } from "recharts";

/** A chart as large as what it stands in. It waits a moment before it follows a change, for a chart that is
 *  taken away is first told that it has no size, and would complain of it. */
export function Fitted({ children }: { children: ReactElement }) {
  return <ResponsiveContainer debounce={50}>{children}</ResponsiveContainer>;
}
