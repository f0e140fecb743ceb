// One cell of the matrix: USERS without pauses, one PATTERN, answers of exactly TOKENS tokens.
import { ask, draw, empty, fresh, iteration, repeated } from './client.js';

const USERS = Number(__ENV.USERS || 4);
const PATTERN = __ENV.PATTERN || 'short';
const MODEL = __ENV.MODEL || 'smollm2';
const TOKENS = Number(__ENV.TOKENS || 16);

export const options = {
  scenarios: {
    cell: { executor: 'constant-vus', vus: USERS, duration: __ENV.HOLD || '8s', gracefulStop: '60s' },
  },
};
export const setup = empty;

const PATTERNS = {
  short: (number) => fresh(number),
  long: (number) => [0, 1, 2, 3, 4, 5, 6, 7].map((i) => fresh(8 * number + i)).join(' '),
  repeats: (number) => (draw(number, 3) < 0.5 ? repeated(number) : fresh(number)),
};

export default function () {
  const number = iteration();
  const body = {
    model: MODEL, prompt: PATTERNS[PATTERN](number), max_tokens: TOKENS, temperature: 0, ignore_eos: true,
  };
  ask('/v1/completions', body, { kind: PATTERN });
}
