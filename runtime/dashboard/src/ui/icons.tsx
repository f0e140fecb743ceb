// Line icons of our own, 20 × 20; decoration only, so they are hidden from screen readers.

const PATHS: Record<string, string> = {
  overview: "M3 16V9m5 7V4m5 12v-5m4 5V7",
  requests: "M4 5h12M4 10h12M4 15h7",
  cache:
    "M4 6c0-1.5 2.7-2.5 6-2.5s6 1 6 2.5-2.7 2.5-6 2.5S4 7.5 4 6zm0 0v8c0 1.5 2.7 2.5 6 2.5s6-1 6-2.5V6M4 10c0 1.5 2.7 2.5 6 2.5s6-1 6-2.5",
  playground: "M4 5l4 5-4 5m7 0h5",
  load: "M3.5 14a6.5 6.5 0 1 1 13 0M10 14l3-5",
  architecture: "M8 3h4v4H8zM3 13h4v4H3zm10 0h4v4h-4zM10 7v3m-5 3v-3h10v3",
  light:
    "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v1.5m0 13V18m8-8h-1.5m-13 0H2m13.7-5.7-1.1 1.1M5.4 14.6l-1.1 1.1m11.4 0-1.1-1.1M5.4 5.4 4.3 4.3",
  dark: "M16 11.5A6.5 6.5 0 0 1 8.5 4 6.5 6.5 0 1 0 16 11.5z",
  system: "M3 4h14v9H3zm4 13h6m-3-4v4",
  key: "M12.5 7.5a3 3 0 1 1-3 3l-6 6v-2.5h2v-2h2l1.8-1.8a3 3 0 0 1 3.2-2.7z",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg className="icon" viewBox="0 0 20 20" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path className="hull" d="M6 18h20l-3 6H9zM10 16v-5h9l3 5z" />
      <path
        className="wave"
        d="M5 27c2.2 0 2.2-1.4 4.4-1.4S11.6 27 13.8 27s2.2-1.4 4.4-1.4S20.4 27 22.6 27s2.2-1.4 4.4-1.4"
      />
    </svg>
  );
}
