"""What the API server's audit log says that an operator has written."""

from __future__ import annotations

_WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def writes(plane, since, namespace):
    """What an operator has written in a namespace since a position of the audit log, its Lease aside."""
    return [
        (event["verb"], event["objectRef"]["resource"], event["objectRef"].get("name"))
        for event in plane.audit(since)
        if event["verb"] in _WRITES
        and event["user"]["username"].endswith(":ferry-operator")
        and event["objectRef"].get("namespace") == namespace
        and event["objectRef"]["resource"] != "leases"
    ]
