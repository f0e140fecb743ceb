"""Names of other objects in the same namespace."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ferry_api.schema import SpecModel, Text, matches

OBJECT_NAME = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
SECRET_KEY = "^[-._a-zA-Z0-9]+$"  # noqa: S105  (a pattern, not a password)

ObjectName = Annotated[
    Text,
    Field(min_length=1, max_length=253),
    matches(OBJECT_NAME, "must be an object's name: lower-case letters, digits, dashes and dots"),
]
SecretKey = Annotated[
    Text,
    Field(min_length=1, max_length=253),
    matches(SECRET_KEY, "must be an entry's key: letters, digits, dashes, underscores and dots"),
]


class ObjectRef(SpecModel):
    """An object in the resource's own namespace."""

    name: ObjectName = Field(description="Name of the object.")


class HubTokenRef(ObjectRef):
    """A Secret that holds an access token of the model hub."""

    key: SecretKey = Field("token", description="Entry of the Secret that holds the token.")


class ApiKeyRef(ObjectRef):
    """A Secret that holds the upstream's API key."""

    key: SecretKey = Field("api-key", description="Entry of the Secret that holds the key.")


class RedisUrlRef(ObjectRef):
    """A Secret that holds a Redis URL."""

    key: SecretKey = Field(
        "url", description="Entry of the Secret that holds the URL: redis:// or, with TLS, rediss://."
    )


class CertificateRef(ObjectRef):
    """A Secret that holds a certificate authority."""

    key: SecretKey = Field("ca.crt", description="Entry of the Secret that holds the PEM certificates.")
