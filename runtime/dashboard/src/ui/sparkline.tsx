/** A trend without axes, beside the number that it belongs to. */
export function Sparkline({ values }: { values: (number | null)[] }) {
  const most = Math.max(...values.map((value) => value ?? 0), 0);
  if (most === 0) return <svg className="spark" viewBox="0 0 100 28" aria-hidden="true" />;
  const x = (index: number) => (index / Math.max(values.length - 1, 1)) * 100;
  const line = values.map(
    (value, index) => `${x(index).toFixed(1)},${(26 - ((value ?? 0) / most) * 23).toFixed(1)}`,
  );
  return (
    <svg className="spark" viewBox="0 0 100 28" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,28 ${line.join(" ")} 100,28`} />
      <polyline points={line.join(" ")} />
    </svg>
  );
}
