"""Everything that can go wrong in the operator, under one root class.

Each error says what was wrong, where, and (where somebody can do something about it) what to do.
"""

from __future__ import annotations

from ferry_operator.kinds import Kind


class OperatorError(Exception):
    """Root of the operator's own errors."""


class InvalidSettings(OperatorError):
    """The operator was started with settings that cannot work."""


class NotLeader(OperatorError):
    """A write was asked for while another operator may hold the Lease; nothing was sent."""


class Succession(OperatorError):
    """An object of a deleted InferenceService of the same name is there still; Kubernetes removes it soon."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__(f"{kind.kind} {name} belongs to a predecessor that is being removed")
        self.kind = kind
        self.name = name


class ApiError(OperatorError):
    """The API server answered a call with an error, or did not answer."""

    def __init__(self, call: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{call}: {status} {reason}: {message}")
        self.call = call
        self.status = status
        self.reason = reason
        self.message = message


class Unreachable(ApiError):
    """No answer in time, or no connection. The call may or may not have been carried out."""

    def __init__(self, call: str, message: str) -> None:
        super().__init__(call, 0, "Unreachable", message)


class Forbidden(ApiError):
    """The operator's role does not allow the call, or the namespace is being deleted."""

    @property
    def of_namespace(self) -> bool:
        """Whether the namespace is being deleted: nothing can be made in it any more, by anybody."""
        return "because it is being terminated" in self.message


class NotFound(ApiError):
    """The object or its namespace is gone."""


class Conflict(ApiError):
    """Another field manager owns what was asked for, or a precondition no longer holds."""

    @property
    def of_fields(self) -> bool:
        """Whether it is about fields of another manager. Else the call may succeed the next time."""
        return self.message.startswith("Apply failed with")


class Invalid(ApiError):
    """The API server refuses the object as it is; repeating the call will not help."""


class StepFailed(OperatorError):
    """One object could not be written or removed for now; it will be tried again."""

    def __init__(self, kind: Kind, name: str, cause: ApiError) -> None:
        super().__init__(f"{kind} {name}: {cause}")
        self.kind = kind
        self.name = name
        self.cause = cause


_UNTYPED = "failed to create typed patch object"
"""What server-side apply says of a manifest in which a field has the wrong type: with 500, and for ever."""

_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Invalid,
}


def api_error(call: str, status: int, reason: str, message: str) -> ApiError:
    """The error class for an HTTP status of the API server."""
    refused = status == 500 and message.startswith(_UNTYPED)
    return (Invalid if refused else _BY_STATUS.get(status, ApiError))(call, status, reason, message)
