// Up to 50 users; 30 in a hundred questions are among twenty that the cache knows, the others are new.
import { draw, fresh, generate, iteration, repeated, think, users, warm } from './client.js';

export const options = users(50, '20s', '30s');
export const setup = warm;

export default function () {
  const number = iteration();
  if (draw(number, 3) < 0.3) generate(repeated(number), { kind: 'repeated' });
  else generate(fresh(number), { kind: 'new' });
  think(number);
}
