// Up to 50 users ask twenty questions whose answers are cached.
import { generate, iteration, repeated, think, users, warm } from './client.js';

export const options = users(50, '15s', '25s');
export const setup = warm;

export default function () {
  const number = iteration();
  generate(repeated(number), { kind: 'repeated' });
  think(number);
}
