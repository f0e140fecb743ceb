// What the scenarios share: which question comes when, how it is sent, and what is kept of the answer.
//
// Two metrics carry everything that is reported. `sent` counts requests as they leave; `answer` holds the
// seconds until each one's end, with tags. A request without an `answer` was unfinished when the run ended.
// The order of questions depends on SEED and the number of the iteration alone, so that two servers get
// the same questions in the same order.

import exec from 'k6/execution';
import http from 'k6/http';
import { sleep } from 'k6';
import { SharedArray } from 'k6/data';
import { Counter, Trend } from 'k6/metrics';

export const URL = (__ENV.URL || 'http://127.0.0.1:8000').replace(/\/$/, '');
const SEED = Number(__ENV.SEED || 1);
const TOKENS = Number(__ENV.TOKENS || 48);
const PATIENCE = '150s'; // after it a request counts as unfinished
const POOL = 20; // questions that are asked again and again

const prompts = new SharedArray('prompts', () => JSON.parse(open('./prompts.json')));
const sent = new Counter('sent');
const answer = new Trend('answer', true);

// A number in [0, 1) from whole numbers: the 32-bit finaliser of MurmurHash3.
export function draw(...parts) {
  let hash = SEED;
  for (const part of parts) {
    hash = Math.imul(hash ^ part, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return (hash >>> 0) / 4294967296;
}

export const repeated = (number) => prompts[Math.floor(draw(number, 1) * POOL)];

// Different SEEDs begin elsewhere in the list. It never runs out: after its end, two questions at a time.
export function fresh(number) {
  const count = prompts.length - POOL;
  const at = (i) => prompts[POOL + ((i + SEED * 97) % count)];
  const turn = Math.floor(number / count);
  return turn === 0 ? at(number) : `${at(number)} Then: ${at(number + 13 * turn)}`;
}

export const iteration = () => exec.scenario.iterationInTest;

export function users(most, ramp, hold) {
  return {
    scenarios: {
      users: {
        executor: 'ramping-vus',
        startVUs: 1,
        stages: [
          { duration: __ENV.RAMP || ramp, target: Number(__ENV.USERS || most) },
          { duration: __ENV.HOLD || hold, target: Number(__ENV.USERS || most) },
        ],
        gracefulRampDown: PATIENCE,
        gracefulStop: PATIENCE,
      },
    },
    setupTimeout: '300s',
  };
}

export const think = (number) => sleep(0.5 + draw(number, 2)); // 1 s on average

export const generate = (prompt, more) => ask('/generate', { prompt, max_new_tokens: TOKENS }, more);

export function chat(prompt, more, fields) {
  const messages = [{ role: 'user', content: prompt }];
  const model = __ENV.MODEL || 'smollm2';
  ask('/v1/chat/completions', { model, messages, max_tokens: TOKENS, temperature: 0, ...fields }, more);
}

export function ask(path, body, more) {
  sent.add(1);
  const users = exec.instance.vusActive;
  const response = http.post(URL + path, JSON.stringify(body), request());
  const seconds = response.timings.blocked + response.timings.duration;
  answer.add(seconds, { ...more, ...told(response), users: String(users) });
}

// LOAD_KEY comes from the environment, so that no process list shows it.
const key = __ENV.LOAD_KEY ? { authorization: `Bearer ${__ENV.LOAD_KEY}` } : {};
const request = () => ({ headers: { 'content-type': 'application/json', ...key }, timeout: PATIENCE });

const OUTCOMES = { 0: 'unfinished', 200: 'finished', 429: 'refused', 503: 'refused', 504: 'expired' };

function told(response) {
  const outcome = OUTCOMES[response.status] || 'failed';
  if (outcome !== 'finished') return { outcome, cache: 'none', tokens: '0' };
  const body = response.json();
  const tokens = body.usage ? body.usage.completion_tokens : body.output_tokens;
  const cache = response.headers['X-Ferry-Cache'] || (body.cached ? 'hit' : 'miss');
  return { outcome, cache, tokens: String(tokens) };
}

// Every scenario starts from an empty cache, or from one that knows the repeated questions.
export function empty() {
  const { status } = http.post(`${URL}/clear-cache`, '{}', request());
  // 404: a server that knows no such order has no cache of ours.
  if (status === 200 || status === 404) return;
  exec.test.abort(`the cache cannot be emptied (${status}): LOAD_KEY must be an admin's key`);
}

export function warm() {
  empty();
  const all = [];
  for (let i = 0; i < POOL; i += 1) {
    const body = JSON.stringify({ prompt: prompts[i], max_new_tokens: TOKENS });
    all.push(['POST', `${URL}/generate`, body, request()]);
  }
  for (let round = 0; round < 5; round += 1) {
    const answers = http.batch(all);
    if (answers.every((one) => one.status === 200 && one.json().cached)) return;
    sleep(1);
  }
  exec.test.abort('the server does not answer repeated questions from its cache');
}
