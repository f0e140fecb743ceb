"""spec.auth and spec.network: who gets in, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ferry_api.schema import Bool, Rule, SpecModel, Text, matches
from ferry_api.spec.pod import Annotations
from ferry_api.spec.references import ObjectName, ObjectRef

Hostname = Annotated[
    Text,
    Field(min_length=1, max_length=253),
    matches(
        "^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "must be a host name such as llm.example.com, without scheme, port or path",
    ),
]


class AuthSpec(SpecModel):
    """Who may send requests."""

    api_keys_secret_ref: ObjectRef | None = Field(
        None,
        description="A Secret whose entries are API keys: the entry's name is the key's id, its value JSON "
        '{"sha256": …, "tenant": …, "admin": …, "priority": {"min": …, "max": …}}. Unset: no key is '
        "asked for and there is one tenant, anonymous.",
    )


class IngressSpec(SpecModel):
    """An Ingress for /v1/* and /generate."""

    class_name: ObjectName | None = Field(None, description="IngressClass; unset: the cluster's default.")
    host: Hostname = Field(description="Host name that clients use.")
    tls_secret_name: ObjectName | None = Field(
        None, description="Secret with the certificate; unset: no TLS."
    )
    annotations: Annotations = Field({}, description="Annotations for the ingress controller.")


class ParentRef(SpecModel):
    """A Gateway to attach to."""

    name: ObjectName = Field(description="Name of the Gateway.")
    namespace: ObjectName | None = Field(None, description="Its namespace; unset: the resource's own.")
    section_name: ObjectName | None = Field(None, description="One listener of it; unset: all.")


class HttpRouteSpec(SpecModel):
    """A Gateway API HTTPRoute for /v1/* and /generate."""

    parent_refs: Annotated[tuple[ParentRef, ...], Field(min_length=1, max_length=16)] = Field(
        description="Gateways to attach to."
    )
    hostnames: Annotated[tuple[Hostname, ...], Field(max_length=16)] = Field(
        (), description="Host names that clients use; none: those of the Gateway."
    )


class NetworkPolicySpec(SpecModel):
    """Walls around the managed Redis."""

    enabled: Bool = Field(
        True, description="Make a NetworkPolicy that lets only the runtime's pods reach the managed Redis."
    )


class NetworkSpec(SpecModel):
    """How clients outside the cluster reach the service, and who reaches Redis."""

    ingress: IngressSpec | None = Field(None, description="An Ingress for /v1/* and /generate.")
    http_route: HttpRouteSpec | None = Field(
        None, description="A Gateway API HTTPRoute for /v1/* and /generate."
    )
    network_policy: NetworkPolicySpec = Field(
        NetworkPolicySpec(), description="Walls around the managed Redis."
    )

    RULES = (
        Rule(
            "!has(self.ingress) || !has(self.httpRoute)",
            lambda n: n.ingress is None or n.http_route is None,
            "has both ingress and httpRoute, but status.url can name one way in: remove one of the two",
        ),
    )
