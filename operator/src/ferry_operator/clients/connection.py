"""How to reach the API server: from inside a pod, or by a kubeconfig."""

from __future__ import annotations

import os
from importlib.metadata import version

from kubernetes.aio import client, config


async def connect(identity: str) -> client.ApiClient:
    """A client for the cluster that this process runs in, else for the kubeconfig's current context.

    The caller closes it. `identity` tells this process from others in the API server's audit log.
    A pod's token is read again each minute, since it is rotated.
    """
    configuration = client.Configuration()
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        config.load_incluster_config(client_configuration=configuration)
    else:
        await config.load_kube_config(client_configuration=configuration)
    configuration.retries = None  # Each caller has its own idea of when to try again.
    # Else aiohttp reads ~/.netrc and the proxy variables for each call. kopf's watches use no proxy either.
    configuration.client_session_kwargs = {"trust_env": False}
    made = client.ApiClient(configuration=configuration)
    made.user_agent = f"ferry-operator/{version('ferry-serving')} ({identity})"
    return made
