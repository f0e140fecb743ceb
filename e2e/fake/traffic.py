"""Sends requests to one service until it is told to end; prints one JSON line for each, as it ends.

Runs in a pod of the cluster. Three kinds of client at once, since rollouts hurt them differently: one keeps
its connection, one makes a new one for every request, one streams.
"""

import argparse
import itertools
import json
import pathlib
import socket
import threading
import time
import urllib.parse

import httpx

STOP = pathlib.Path("/tmp/stop")  # noqa: S108  (the pod is its own)
PRINTING = threading.Lock()


def report(**outcome):
    with PRINTING:
        print(json.dumps(outcome), flush=True)


def reachable(url, seconds=10):
    """Wait until this node takes connections for the address: its kube-proxy learns of an endpoint up to a
    second after the API server has it. Whatever is wrong after ``seconds`` shows in the record."""
    parts = urllib.parse.urlsplit(url)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection((parts.hostname, parts.port or 80), timeout=seconds).close()
            return
        except OSError:
            time.sleep(0.1)


def body(options, number, stream):
    prompt = f"Question {options.salt}: {number}" if not options.prompt else options.prompt
    return {
        "model": options.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": options.max_tokens,
        "temperature": 0,
        "stream": stream,
    }


def ask(client, options, number, stream):
    """One request; returns what became of it. A stream counts only when its end has come."""
    headers = {"Authorization": f"Bearer {options.key}"} if options.key else {}
    url = f"{options.url}/v1/chat/completions"
    if not stream:
        answer = client.post(url, json=body(options, number, False), headers=headers)
        text = answer.json()["choices"][0]["message"]["content"] if answer.status_code == 200 else ""
        return {"status": answer.status_code, "cache": answer.headers.get("x-ferry-cache"), "text": text}
    with client.stream("POST", url, json=body(options, number, True), headers=headers) as answer:
        lines = [line for line in answer.iter_lines() if line]
        whole = answer.status_code != 200 or lines[-1:] == ["data: [DONE]"]
        broken = any(line.startswith("data: ") and '"error"' in line for line in lines)
        error = None if whole and not broken else "the stream ended without its end"
        return {"status": answer.status_code, "cache": answer.headers.get("x-ferry-cache"), "error": error}


def work(kind, options):
    kept = httpx.Client(timeout=options.timeout)
    for number in itertools.count():
        if STOP.exists() or time.monotonic() > options.end:
            return
        began = time.monotonic()
        client = httpx.Client(timeout=options.timeout) if kind == "new" else kept
        try:
            outcome = ask(client, options, f"{kind} {number}", kind == "stream")
        except Exception as error:  # noqa: BLE001  (whatever it is, the request has not been answered)
            outcome = {"status": 0, "error": type(error).__name__}
        if kind == "new":
            client.close()
        report(kind=kind, at=time.time(), seconds=round(time.monotonic() - began, 3), **outcome)
        time.sleep(options.pause)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--clients", type=int, default=1, help="of each kind")
    parser.add_argument("--prompt", default="", help="always the same; otherwise no two are alike")
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    reachable(options.url)
    options.end = time.monotonic() + options.seconds
    options.salt = time.time_ns()
    kinds = ["kept", "new", "stream"] * options.clients
    threads = [threading.Thread(target=work, args=(kind, options)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
