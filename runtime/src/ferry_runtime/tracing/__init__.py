"""Traces of requests, with OpenTelemetry: the HTTP request, the cache, the wait in the queue, the engine.

An optional part (the package's extra ``otel``), switched on by OpenTelemetry's own environment variables.
Only `setup` and `spans` import it, and only when it is switched on: a server without traces pays nothing.
No text of a prompt or an answer, and no text of an error, becomes part of a span.
"""
