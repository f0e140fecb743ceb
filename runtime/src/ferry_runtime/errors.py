"""The runtime's exceptions: one root, and every message says what was wrong and what to do.

Messages of these classes are written for users and never hold prompt text or an outside
library's exception text; those go to the log with the request id.
"""

from __future__ import annotations


class FerryError(Exception):
    """Root of everything that Ferry raises on purpose."""


class ConfigurationError(FerryError):
    """The manifest, file or environment asks for something that cannot be done."""


class SecretMissing(ConfigurationError):
    """A mounted secret is not there, or is empty: it may still come."""


class ModelPreparationError(FerryError):
    """Weights could not be found, fetched, converted or trusted."""


class EngineError(FerryError):
    """Root of what a backend raises."""


class EngineNotReady(EngineError):
    """No model is loaded yet, or the engine is being restarted. Retry later."""


class EngineLoadError(EngineError):
    """The model cannot be served as configured; restarting would not help."""


class EngineDied(EngineError):
    """The engine process ended while this request was open."""


class RequestFailed(EngineError):
    """This request alone failed inside the engine; others go on."""


class CannotFit(RequestFailed):
    """The request needs more room for keys and values than the engine will ever have."""


class InvalidRequest(FerryError):
    """A client's request is wrong. ``param`` names the field, in the client's words."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ShuttingDown(EngineNotReady):
    """This replica is draining: it takes nothing new, or its time to finish has run out."""


class Overloaded(FerryError):
    """The queue is full. ``retry_after`` is in seconds, measured from how fast the queue drains.

    ``per_tenant``: it is this tenant that holds more than its share (429); otherwise the whole
    server is full (503).
    """

    def __init__(self, message: str, retry_after: float, *, per_tenant: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.per_tenant = per_tenant


class DeadlineExceeded(FerryError):
    """The request's time ran out, queued or running. Never a finish_reason."""


class ChatTemplateFailed(FerryError):
    """The model's own chat template broke on a conversation: the server's fault, not the client's."""


class NotCached(FerryError):
    """The request says only-if-cached and no tier has an answer (RFC 9111, 5.2.1.7: status 504)."""


class StoreError(FerryError):
    """Root of what the shared store raises; the cache serves around every one of them."""


class StoreUnavailable(StoreError):
    """The store did not answer: unreachable, too slow, or it refused the credentials."""


class StoreRefused(StoreError):
    """The store answered with an error: out of memory, read-only, wrong type."""


class StoreMisused(StoreRefused):
    """One of our keys holds a value of a kind that is not ours."""


class StoreBusy(StoreError):
    """Every connection of our own pool was in use; says nothing about the store's health."""


class EmbedderUnavailable(EngineNotReady):
    """There is no embedding model, or its process cannot be used now."""
