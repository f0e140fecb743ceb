"""Making it so: what is waiting, what to do about it, and doing it."""
