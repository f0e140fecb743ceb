"""Where a runtime's pod finds what the operator mounts, and the variables that name it.

One list for both sides: the operator's plan mounts these paths, `ferry serve` reads the variables. A variable
that is not set means that the thing does not exist for this service (no API keys, no cache …).
"""

from __future__ import annotations

from typing import Final

CONFIG_FOLDER: Final = "/etc/ferry"
COLD_FOLDER: Final = f"{CONFIG_FOLDER}/cold"
"""An immutable ConfigMap: `config.json` with apiVersion, kind and `cold` of RuntimeConfig."""
HOT_FOLDER: Final = f"{CONFIG_FOLDER}/hot"
"""A ConfigMap that changes while the pod runs: `config.json` with `generation` and `hot` of RuntimeConfig."""
CONFIG_FILE: Final = "config.json"

CACHE_FOLDER: Final = "/var/cache/ferry"
"""Fetched and converted weights: a volume of the user's choice, else one that goes with the pod."""
CLAIM_FOLDER: Final = "/mnt/ferry/model"
"""The claim that a pvc:// source names, read-only."""

SECRETS_FOLDER: Final = f"{CONFIG_FOLDER}/secrets"
API_KEYS_FOLDER: Final = f"{SECRETS_FOLDER}/api-keys"
ADMIN_KEYS_FOLDER: Final = f"{SECRETS_FOLDER}/admin"
HUB_TOKEN_FILE: Final = f"{SECRETS_FOLDER}/hub/token"
UPSTREAM_KEY_FILE: Final = f"{SECRETS_FOLDER}/upstream/api-key"
REDIS_PASSWORD_FILE: Final = f"{SECRETS_FOLDER}/redis/password"
REDIS_URL_FILE: Final = f"{SECRETS_FOLDER}/redis/url"
REDIS_CA_FILE: Final = f"{SECRETS_FOLDER}/redis-ca/ca.crt"

HTTP_PORT: Final = 8000
DRAIN_DELAY_SECONDS: Final = 5
"""How long a stopping pod still serves as before, while the endpoints that route to it catch up."""

ENV_API_KEYS_DIR: Final = "FERRY_API_KEYS_DIR"
"""Folder of key entries, one file per key id. Unset: no keys are asked for, one tenant, anonymous."""
ENV_ADMIN_KEYS_DIR: Final = "FERRY_ADMIN_KEYS_DIR"
"""Folder of key entries that open the admin routes."""
ENV_HUB_TOKEN_PATH: Final = "HF_TOKEN_PATH"  # noqa: S105  (huggingface_hub's own name for it)
ENV_UPSTREAM_KEY_FILE: Final = "FERRY_UPSTREAM_API_KEY_FILE"
ENV_REDIS_URL: Final = "REDIS_URL"
"""Address of the managed Redis, without its password."""
ENV_REDIS_PASSWORD_FILE: Final = "FERRY_REDIS_PASSWORD_FILE"  # noqa: S105  (a variable's name)
ENV_REDIS_URL_FILE: Final = "FERRY_REDIS_URL_FILE"
"""File with the address of an external Redis, password included."""
ENV_REDIS_CA_FILE: Final = "FERRY_REDIS_CA_FILE"
ENV_SERVICE: Final = "FERRY_SERVICE"
"""Namespace and name of the resource, set with an external Redis: keeps services apart that share one."""
