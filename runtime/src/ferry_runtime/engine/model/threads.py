"""How the threads of a process that runs a model should wait for each other. Imports no torch."""

# For the environment of a process, before it imports torch: libgomp reads it when it is loaded.
# By its own choice a thread spins for many milliseconds at the end of each parallel operation, of
# which a decode step has hundreds. Where another process runs on the same cores, each of them then
# waits for the scheduler: measured on two cores with other work, a step took 2.5 s instead of 0.3 s.
# Spinning for some ten microseconds costs nothing measurable where the cores are free.
ENVIRONMENT = {"GOMP_SPINCOUNT": "1000"}
