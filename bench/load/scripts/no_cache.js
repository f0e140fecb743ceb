// Up to 50 users; no question comes twice, nor one that resembles another.
import { empty, fresh, generate, iteration, think, users } from './client.js';

export const options = users(50, '20s', '30s');
export const setup = empty;

export default function () {
  const number = iteration();
  generate(fresh(number), { kind: 'new' });
  think(number);
}
