// 24 users; every fourth request is urgent (priority -1), one is ordinary, two may wait (priority 5).
import { chat, empty, fresh, iteration, think, users } from './client.js';

const KINDS = [['urgent', -1], ['ordinary', 0], ['may wait', 5], ['may wait', 5]];

export const options = users(24, '10s', '30s');
export const setup = empty;

export default function () {
  const number = iteration();
  const [kind, priority] = KINDS[number % KINDS.length];
  chat(fresh(number), { kind }, { priority });
  think(number);
}
