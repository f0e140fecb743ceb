"""The volumes of a runtime's pod, and the variables that tell the runtime about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferry_api import pod_layout as layout
from ferry_api.resource import InferenceService
from ferry_api.spec.model import AccessMode
from ferry_operator.plan import names

_SECRET_MODE = 0o440  # readable by the pod's group, nobody else
_SHARED = frozenset({AccessMode.READ_WRITE_MANY})


@dataclass(frozen=True)
class Mount:
    """One volume, where it is mounted, and the variable that says so."""

    name: str
    source: dict[str, Any]
    path: str
    writable: bool = False
    variable: tuple[str, str] | None = None
    exclusive: bool = False
    """A second pod may be unable to mount it while the first one does."""

    @property
    def volume(self) -> dict[str, Any]:
        return {"name": self.name, **self.source}

    @property
    def volume_mount(self) -> dict[str, Any]:
        mount: dict[str, Any] = {"name": self.name, "mountPath": self.path}
        return mount if self.writable else {**mount, "readOnly": True}


def mounts(resource: InferenceService, cold_config: str) -> tuple[Mount, ...]:
    """Everything that a runtime's pod mounts, always in the same order."""
    name = resource.metadata.name
    return (
        Mount("cold", _config_map(cold_config), layout.COLD_FOLDER),
        Mount("hot", _config_map(names.runtime(name)), layout.HOT_FOLDER),
        Mount("cache", *_weights(resource)),
        Mount("tmp", {"emptyDir": {}}, "/tmp", writable=True),  # noqa: S108  (a mount of its own)
        Mount(
            "admin-key",
            _secret(names.admin(name), ("admin", "admin")),
            layout.ADMIN_KEYS_FOLDER,
            variable=(layout.ENV_ADMIN_KEYS_DIR, layout.ADMIN_KEYS_FOLDER),
        ),
        *_claimed_model(resource),
        *_user_secrets(resource),
        *_redis(resource),
    )


def _weights(resource: InferenceService) -> tuple[dict[str, Any], str, bool, None, bool]:
    storage = resource.spec.model.storage
    if storage is None:
        return {"emptyDir": {}}, layout.CACHE_FOLDER, True, None, False
    claim = storage.existing_claim or names.weights(resource.metadata.name)
    # How a claim of the user's may be shared is not known here.
    exclusive = storage.existing_claim is not None or storage.access_mode not in _SHARED
    return _claim(claim), layout.CACHE_FOLDER, True, None, exclusive


def claim_of_source(source: str) -> str | None:
    """The claim that a pvc:// source names."""
    scheme, _, rest = source.partition("://")
    return rest.partition("/")[0] if scheme == "pvc" else None


def _claimed_model(resource: InferenceService) -> tuple[Mount, ...]:
    claim = claim_of_source(resource.spec.model.source)
    if claim is None:
        return ()
    return (Mount("model", _claim(claim, read_only=True), layout.CLAIM_FOLDER, exclusive=True),)


def _user_secrets(resource: InferenceService) -> tuple[Mount, ...]:
    found = []
    keys = resource.spec.auth.api_keys_secret_ref
    if keys is not None:
        folder = layout.API_KEYS_FOLDER
        found.append(
            Mount("api-keys", _secret(keys.name), folder, variable=(layout.ENV_API_KEYS_DIR, folder))
        )
    token = resource.spec.model.secret_ref
    if token is not None:
        found.append(
            _file("hub-token", token.name, token.key, layout.HUB_TOKEN_FILE, layout.ENV_HUB_TOKEN_PATH)
        )
    upstream = resource.spec.engine.upstream
    if upstream is not None and upstream.secret_ref is not None:
        reference = upstream.secret_ref
        file, variable = layout.UPSTREAM_KEY_FILE, layout.ENV_UPSTREAM_KEY_FILE
        found.append(_file("upstream-key", reference.name, reference.key, file, variable))
    return tuple(found)


def _redis(resource: InferenceService) -> tuple[Mount, ...]:
    """The same with the cache switched off, and optional: switching it must not replace pods."""
    external = resource.spec.cache.redis.external
    if external is None:
        secret = names.redis(resource.metadata.name)
        file, variable = layout.REDIS_PASSWORD_FILE, layout.ENV_REDIS_PASSWORD_FILE
        return (_file("redis", secret, "password", file, variable, optional=True),)
    url = external.url_secret_ref
    file, variable = layout.REDIS_URL_FILE, layout.ENV_REDIS_URL_FILE
    found = [_file("redis", url.name, url.key, file, variable, optional=True)]
    if external.tls is not None:
        ca = external.tls.ca_secret_ref
        file, variable = layout.REDIS_CA_FILE, layout.ENV_REDIS_CA_FILE
        found.append(_file("redis-ca", ca.name, ca.key, file, variable, optional=True))
    return tuple(found)


def _file(name: str, secret: str, key: str, file: str, variable: str, *, optional: bool = False) -> Mount:
    """One entry of a Secret as one file, whatever the entry is called."""
    folder, _, base = file.rpartition("/")
    source = _secret(secret, (key, base))
    if optional:
        source["secret"]["optional"] = True
    return Mount(name, source, folder, variable=(variable, file))


def _config_map(name: str) -> dict[str, Any]:
    return {"configMap": {"name": name}}


def _secret(name: str, *items: tuple[str, str]) -> dict[str, Any]:
    source: dict[str, Any] = {"secretName": name, "defaultMode": _SECRET_MODE}
    if items:
        source["items"] = [{"key": key, "path": path} for key, path in items]
    return {"secret": source}


def _claim(name: str, *, read_only: bool = False) -> dict[str, Any]:
    source: dict[str, Any] = {"claimName": name}
    return {"persistentVolumeClaim": {**source, "readOnly": True} if read_only else source}


@dataclass(frozen=True)
class UserSecret:
    """A Secret of the user's that pods cannot start without."""

    name: str
    entry: str | None
    """The one entry that is mounted; None: whatever there is."""
    field: str
    """The field below spec that names it."""


def user_secrets(resource: InferenceService) -> tuple[UserSecret, ...]:
    """Secrets that must exist before pods can start."""
    spec = resource.spec
    found = []
    if spec.auth.api_keys_secret_ref is not None:
        found.append(UserSecret(spec.auth.api_keys_secret_ref.name, None, "auth.apiKeysSecretRef"))
    token = spec.model.secret_ref
    if token is not None:
        found.append(UserSecret(token.name, token.key, "model.secretRef"))
    key = spec.engine.upstream.secret_ref if spec.engine.upstream is not None else None
    if key is not None:
        found.append(UserSecret(key.name, key.key, "engine.upstream.secretRef"))
    external = spec.cache.redis.external
    if spec.cache.enabled and external is not None:
        url = external.url_secret_ref
        found.append(UserSecret(url.name, url.key, "cache.redis.external.urlSecretRef"))
        if external.tls is not None:
            ca = external.tls.ca_secret_ref
            found.append(UserSecret(ca.name, ca.key, "cache.redis.external.tls.caSecretRef"))
    return tuple(found)
