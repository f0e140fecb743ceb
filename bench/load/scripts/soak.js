// 12 users for as long as HOLD says, half of the questions repeated: nothing may grow, break or slow down.
import { chat, draw, empty, fresh, iteration, repeated, think, users } from './client.js';

export const options = users(12, '5s', '10m');
export const setup = empty;

export default function () {
  const number = iteration();
  if (draw(number, 3) < 0.5) chat(repeated(number), { kind: 'repeated' });
  else chat(fresh(number), { kind: 'new' });
  think(number);
}
