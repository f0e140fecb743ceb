"""spec.model: which weights, and how they are held."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ferry_api.runtime_config import DType, Quantization
from ferry_api.schema import (
    SAME_CLASS,
    Int,
    Rule,
    Rules,
    SpecModel,
    Text,
    TransitionRule,
    at_least,
    matches,
    only_grows,
)
from ferry_api.spec.references import HubTokenRef, ObjectName
from ferry_api.values import Quantity

_PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
# One alternative per scheme; what is behind the scheme must be whole. [!-~] is visible ASCII.
SOURCE_PATTERN = (
    f"^(hf://{_PART}(/{_PART})?(@[A-Za-z0-9._/-]{{1,128}})?"
    "|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[!-~]*)?"
    "|file:///[!-~]+"
    f"|package://{_PART}"
    "|s3://[a-z0-9][a-z0-9.-]*(/[!-~]*)?"
    "|oci://[!-~]+)$"
)
_SOURCE = re.compile(SOURCE_PATTERN)
_DOT_DOT = re.compile("/[.][.](/|$)")


class AccessMode(StrEnum):
    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_MANY = "ReadWriteMany"


class ReclaimPolicy(StrEnum):
    RETAIN = "Retain"
    DELETE = "Delete"


class ModelStorage(SpecModel):
    """A volume that keeps fetched and converted weights between pods; without it every pod
    fetches its own copy."""

    size: Annotated[
        Quantity | None,
        at_least("64Mi", "10Gi"),
        only_grows("name another volume in existingClaim"),
    ] = Field(None, description="Size of the volume that the operator claims. It can grow, not shrink.")
    class_: ObjectName | None = Field(
        None, alias="class", description="StorageClass of the claim; unset: the cluster's default."
    )
    access_mode: AccessMode = Field(
        AccessMode.READ_WRITE_ONCE,
        description="Access mode of the claim. With ReadWriteOnce an update stops the old pod before "
        "the new one starts.",
    )
    existing_claim: ObjectName | None = Field(
        None, description="A claim of yours to use instead; it is never changed nor deleted."
    )
    reclaim_policy: ReclaimPolicy = Field(
        ReclaimPolicy.RETAIN,
        description="What happens to the operator's claim when the InferenceService is deleted.",
    )

    RULES = (
        Rule(
            "has(self.size) != has(self.existingClaim)",
            lambda s: (s.size is None) != (s.existing_claim is None),
            "needs either size (the operator claims a volume) or existingClaim (you have one), not both",
        ),
        Rule(
            "!has(self.existingClaim) || !has(self.class)",
            lambda s: s.existing_claim is None or s.class_ is None,
            "says how to claim a new volume, existingClaim names one that exists: remove one of the two",
            field="class",
        ),
    )
    TRANSITIONS = (
        TransitionRule(
            f"has(self.existingClaim) || has(oldSelf.existingClaim) || ({SAME_CLASS})",
            lambda new, old: (
                new.existing_claim is not None or old.existing_claim is not None or new.class_ == old.class_
            ),
            "the class of a claimed volume cannot be changed: restore it, or claim a volume of the other "
            "class yourself and name it in existingClaim",
            field="class",
        ),
        TransitionRule(
            "has(self.existingClaim) || has(oldSelf.existingClaim) || self.accessMode == oldSelf.accessMode",
            lambda new, old: (
                new.existing_claim is not None
                or old.existing_claim is not None
                or new.access_mode == old.access_mode
            ),
            "the access mode of a claimed volume cannot be changed: restore it, or claim a volume with the "
            "other mode yourself and name it in existingClaim",
            field="accessMode",
        ),
    )


class ModelSpec(SpecModel):
    """Which weights are served, and how they are held in memory."""

    source: Annotated[
        Text,
        Field(min_length=1, max_length=512),
        Rules(
            (
                Rule(
                    f"self.matches('{SOURCE_PATTERN}')",
                    lambda v: _SOURCE.fullmatch(v) is not None,
                    "must be hf://OWNER/NAME[@REVISION], pvc://CLAIM/PATH, file:///PATH or package://NAME; "
                    "for a model of the Hugging Face hub write for example "
                    "hf://HuggingFaceTB/SmolLM2-135M-Instruct",
                ),
                Rule(
                    "!self.matches('/[.][.](/|$)')",
                    lambda v: _DOT_DOT.search(v) is None,
                    "must not climb out of its folder with /..: write the path from the root",
                ),
            )
        ),
    ] = Field(
        description="Where the weights come from: hf://OWNER/NAME[@REVISION] (the Hugging Face hub), "
        "pvc://CLAIM/PATH (a volume of yours), file:///PATH (in the image, or on this machine with "
        "ferry run), package://NAME (weights that an installed Python package ships). With engine type "
        "OpenAICompatible only the tokenizer and the chat template are read.",
    )
    served_name: Annotated[
        Text | None,
        Field(min_length=1, max_length=253),
        matches(
            "^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
            "must begin with a letter or digit and hold only those and any of . _ : / -",
        ),
    ] = Field(
        None,
        description="The name that clients send, such as meta-llama/Llama-3.1-8B; unset: metadata.name.",
    )
    dtype: DType = Field(
        DType.AUTO,
        description="Number format of weights and activations. Auto: bfloat16 on a GPU that has it, "
        "float16 on older ones; float32 on a CPU, or bfloat16 where it computes that faster and the "
        "checkpoint has no more digits.",
    )
    quantization: Quantization = Field(
        Quantization.NONE, description="Weights held in fewer bits: less memory, somewhat different answers."
    )
    context_length: Int | None = Field(
        None,
        ge=16,
        le=10_485_760,
        description="Most tokens of prompt and answer together; unset: the model's own limit. "
        "Smaller values need less memory.",
    )
    secret_ref: HubTokenRef | None = Field(
        None, description="Access token for gated or private models of the hub."
    )
    storage: ModelStorage | None = Field(
        None,
        description="A volume that keeps fetched and converted weights between pods; unset: every pod "
        "fetches its own copy.",
    )

    RULES = (
        Rule(
            "!has(self.secretRef) || self.source.startsWith('hf://')",
            lambda m: m.secret_ref is None or m.source.startswith("hf://"),
            "secretRef holds a token of the Hugging Face hub, which only hf:// sources use: remove it",
            field="secretRef",
        ),
    )
