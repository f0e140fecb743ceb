"""One module per group of routes; each makes its router from the services."""
