// 24 users; of four requests one is urgent, one ordinary, and two may wait. Lower goes first.
import { chat, empty, fresh, iteration, think, users } from './client.js';

const KINDS = [['urgent', 0], ['ordinary', 2], ['may wait', 8], ['may wait', 8]];

export const options = users(24, '10s', '30s');
export const setup = empty;

export default function () {
  const number = iteration();
  const [kind, priority] = KINDS[number % KINDS.length];
  chat(fresh(number), { kind }, { priority });
  think(number);
}
