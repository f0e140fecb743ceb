"""Fields that shape the runtime's pods: Kubernetes' own types, as far as they are small."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ferry_api.schema import Int, ListMap, Opaque, Rule, Rules, SpecModel, Text, matches
from ferry_api.spec.references import ObjectName
from ferry_api.values import Quantity

LABEL_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
# Labels that the operator's selectors and ownership stand on.
RESERVED_LABEL_PREFIXES = ("serving.ferry.dev/", "app.kubernetes.io/")

LabelKey = Annotated[
    Text,
    Field(min_length=1, max_length=317),
    matches(LABEL_KEY, "must be a label key, such as example.com/team"),
]
LabelValue = Annotated[
    Text,
    Field(max_length=63),
    matches(LABEL_VALUE, "must be a label value: letters, digits, dashes, underscores and dots"),
]
_KEY = re.compile(LABEL_KEY)
# A structural schema cannot bound the keys of a map, so a rule on the map does.
LabelKeys = Rules(
    (
        Rule(
            f"self.all(key, key.size() <= 317 && key.matches('{LABEL_KEY}'))",
            lambda labels: all(len(key) <= 317 and _KEY.fullmatch(key) is not None for key in labels),
            "every key must be a label key, such as example.com/team",
        ),
    )
)
Labels = Annotated[dict[Text, LabelValue], Field(max_length=64), LabelKeys]
Annotations = Annotated[dict[Text, Annotated[Text, Field(max_length=16384)]], Field(max_length=64), LabelKeys]
COMPARED = ("cpu", "memory", "nvidia.com/gpu")
Quantities = Annotated[dict[Text, Quantity], Field(max_length=16)]


class ClaimUse(SpecModel):
    """A device claim of the pod that the container uses."""

    name: ObjectName = Field(description="Name of an entry in resourceClaims.")
    request: ObjectName | None = Field(None, description="One request of the claim; unset: all.")


class ResourceRequirements(SpecModel):
    """What a container asks for and is bounded by."""

    requests: Quantities = Field({}, description="What the scheduler sets aside.")
    limits: Quantities = Field({}, description="Bounds; devices such as nvidia.com/gpu are asked for here.")
    claims: Annotated[tuple[ClaimUse, ...], Field(max_length=16), ListMap("name")] = Field(
        (), description="Device claims that the container uses."
    )

    # Only the common names are compared: over all sixteen the API server's cost estimate is
    # past its budget. The rest is compared when the Deployment is applied.
    RULES = (
        Rule(
            f"!has(self.requests) || !has(self.limits) || {list(COMPARED)}.all(name, "
            "!(name in self.requests) || !(name in self.limits) || "
            "quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
            lambda r: all(
                r.requests[name].value <= r.limits[name].value
                for name in COMPARED
                if name in r.requests and name in r.limits
            ),
            "must not be more than limits: lower the request or raise the limit",
            field="requests",
        ),
    )


class ResourceClaim(SpecModel):
    """A device claim (dynamic resource allocation) of the pod."""

    name: ObjectName = Field(description="What containers call it.")
    resource_claim_name: ObjectName | None = Field(None, description="A ResourceClaim to use.")
    resource_claim_template_name: ObjectName | None = Field(
        None, description="A ResourceClaimTemplate to make one from for each pod."
    )

    RULES = (
        Rule(
            "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)",
            lambda c: (c.resource_claim_name is None) != (c.resource_claim_template_name is None),
            "needs either resourceClaimName or resourceClaimTemplateName, not both",
        ),
    )


class TolerationOperator(StrEnum):
    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(SpecModel):
    """A taint of a node that the pod bears."""

    key: LabelKey | None = Field(None, description="The taint's key; unset with operator Exists: any.")
    operator: TolerationOperator = Field(
        TolerationOperator.EQUAL, description="Whether the taint's value has to be equal."
    )
    value: LabelValue | None = Field(None, description="The taint's value.")
    effect: TaintEffect | None = Field(None, description="The taint's effect; unset: any.")
    toleration_seconds: Int | None = Field(
        None, ge=0, description="How long NoExecute is borne; unset: for ever."
    )

    RULES = (
        Rule(
            "has(self.key) || self.operator == 'Exists'",
            lambda t: t.key is not None or t.operator == TolerationOperator.EXISTS,
            "without a key the operator must be Exists: write operator: Exists, or name the taint's key",
            field="operator",
        ),
        Rule(
            "self.operator != 'Exists' || !has(self.value)",
            lambda t: t.operator != TolerationOperator.EXISTS or t.value is None,
            "operator Exists compares no value: remove value, or write operator: Equal",
            field="value",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            lambda t: t.toleration_seconds is None or t.effect == TaintEffect.NO_EXECUTE,
            "tolerationSeconds needs effect: NoExecute",
            field="tolerationSeconds",
        ),
    )


class Unsatisfiable(StrEnum):
    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpread(SpecModel):
    """How pods are spread over nodes or zones."""

    topology_key: LabelKey = Field(description="Label of the nodes that makes a domain.")
    max_skew: Int = Field(1, ge=1, le=1000, description="Most difference in pods between two domains.")
    when_unsatisfiable: Unsatisfiable = Field(
        Unsatisfiable.DO_NOT_SCHEDULE, description="What happens to a pod that would break the rule."
    )
    min_domains: Int | None = Field(None, ge=1, le=1000, description="Least domains to spread over.")
    label_selector: Annotated[dict[str, Any] | None, Opaque()] = Field(
        None, description="Pods that are counted; unset: this InferenceService's."
    )


class PullSecret(SpecModel):
    """A Secret with an image registry's credentials."""

    name: ObjectName = Field(description="Name of the Secret.")


class NamedItem(SpecModel):
    """An entry that is merged by its name."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[Text, Field(min_length=1, max_length=253)] = Field(description="Name to merge by.")


Named = Annotated[tuple[NamedItem, ...], Field(max_length=64), ListMap("name")]


class PodTemplateMetadata(SpecModel):
    """Labels and annotations to add to the pods."""

    labels: Labels = Field({}, description="Labels to add.")
    annotations: Annotations = Field({}, description="Annotations to add.")

    RULES = (
        Rule(
            "!has(self.labels) || self.labels.all(key, "
            + " && ".join(f"!key.startsWith('{prefix}')" for prefix in RESERVED_LABEL_PREFIXES)
            + ")",
            lambda m: not any(key.startswith(RESERVED_LABEL_PREFIXES) for key in m.labels),
            "must not hold keys of serving.ferry.dev/ or app.kubernetes.io/, which the operator's selectors "
            "stand on: use a prefix of your own",
            field="labels",
        ),
    )


class PodTemplateSpec(SpecModel):
    """A part of a PodSpec; what is not checked here is checked when the Deployment is applied."""

    model_config = ConfigDict(extra="allow")

    containers: Named = Field(
        (), description="Containers to change or add; the runtime's own is named runtime."
    )
    init_containers: Named = Field((), description="Init containers to add.")
    volumes: Named = Field((), description="Volumes to add.")


class PodTemplate(SpecModel):
    """Laid over the operator's pod template as a strategic merge: maps by key, lists by name."""

    metadata: PodTemplateMetadata | None = Field(None, description="Labels and annotations to add.")
    spec: Annotated[PodTemplateSpec | None, Opaque()] = Field(None, description="A part of a PodSpec.")
