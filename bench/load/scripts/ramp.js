// 1 to 50 users of the chat API, slowly, half of the questions repeated: how latency grows with users.
import { chat, draw, empty, fresh, iteration, repeated, think, users } from './client.js';

export const options = users(50, '60s', '1s');
export const setup = empty;

export default function () {
  const number = iteration();
  if (draw(number, 3) < 0.5) chat(repeated(number), { kind: 'repeated' });
  else chat(fresh(number), { kind: 'new' });
  think(number);
}
