"""One request, as standard input describes it in JSON; prints the answer in JSON."""

import json
import sys

import httpx

order = json.load(sys.stdin)
method = "GET" if order["body"] is None else "POST"
answer = httpx.request(method, order["url"], json=order["body"], headers=order["headers"], timeout=60)
try:
    body = answer.json()
except ValueError:
    body = answer.text
print(json.dumps({"status": answer.status_code, "headers": dict(answer.headers), "body": body}))
