// What GET /dashboard/data answers; ferry_runtime.api.dashboard.document is the original.

export const SOURCES = ["exact", "semantic", "coalesced", "miss", "bypass"] as const;
export type Source = (typeof SOURCES)[number];
export const HITS: readonly Source[] = ["exact", "semantic", "coalesced"];

export interface Spread {
  count: number;
  mean: number;
  p50: number;
  p95: number;
  p99: number;
}

export interface Timeline {
  step_seconds: number;
  end: number;
  answers: Record<Source, number[]>;
  unanswered: number[];
  refused: number[];
  tokens: number[];
  latency_p50: (number | null)[];
  latency_p95: (number | null)[];
  latency_p99: (number | null)[];
  first_token_p50: (number | null)[];
  first_token_p95: (number | null)[];
  rows: number[];
  running: number[];
  waiting: number[];
}

export interface Replica {
  id: string;
  name: string;
  started: number;
  version: string;
}

export interface Engine {
  state: string;
  family?: string;
  device?: string;
  dtype?: string;
  numerics?: string;
  context_length?: number;
  slots?: number;
}

export interface ServiceState {
  model: string;
  chat: boolean;
  state: string;
  ready: boolean;
  reason: string;
  engine: Engine;
  max_batch_size: number;
  max_wait_ms: number;
  batching_mode: string;
  queue_max_requests: number;
  queue_max_tokens: number;
  cache_enabled: boolean;
  similarity_threshold: number;
  verifier: string;
  cache_ttl_seconds: number;
  store: { state: string; reachable?: boolean };
}

export interface Live {
  running: number;
  slots: number;
  waiting: number;
  waiting_tokens: number;
  kv_used: number;
  kv_total: number;
  engine_steps: number;
  step_ms: number;
  prefix_reused_tokens: number;
}

export interface Totals {
  requests: Record<string, number>;
  answers: Partial<Record<Source, number>>;
  rejected: Record<string, number>;
  client_errors: number;
  prompt_tokens: number;
  generated_tokens: number;
  saved_tokens: Partial<Record<Source, number>>;
}

export interface CacheStats {
  entries: number;
  bytes: number;
  maxEntries: number;
  indexed: number;
  semantic: { enabled: boolean; embedder: string };
  store: { shared: boolean; reachable: boolean | null; freshness: string };
  lookups: Record<string, number>;
  bypasses: Record<string, number>;
  semanticSkips: Record<string, number>;
  rejections: Record<string, number>;
  nearMisses: number;
  shadow: { verdicts: Record<string, number>; wrongRate: { low: number; high: number } };
  coalesced: number;
  writes: Record<string, number>;
}

export interface RecentRequest {
  request_id: string;
  timestamp: number;
  route: string;
  tenant: string;
  prompt: string;
  outcome: string;
  cache: Source;
  cached: boolean;
  input_tokens: number;
  output_tokens: number;
  latency_ms: number;
  stream: boolean;
  entry: string | null;
  similarity: number | null;
}

export interface Compared {
  timestamp: number;
  asked: string;
  stored: string;
  entry: string;
  similarity: number;
  accepted: boolean;
  reason: string;
}

export interface Document {
  now: number;
  uptime_seconds: number;
  replica: Replica;
  service: ServiceState;
  live: Live;
  totals: Totals;
  latency: Spread;
  first_token: Spread;
  batch: { mean: number; bounds: number[]; steps: number[] };
  cache: CacheStats | null;
  timeline: Timeline;
  recent: RecentRequest[];
  compared: Compared[];
}

export interface LoadReport {
  over: boolean;
  stopped: boolean;
  seed: number;
  asked: number;
  ended: number;
  seconds: number;
  results: Record<string, number>;
  output_tokens: number;
  all: Spread;
  hits: Spread;
  generated: Spread;
  samples: [at: number, latencyMs: number, result: string][];
}
