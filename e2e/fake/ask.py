"""One request, as the only argument describes it in JSON; prints the answer in JSON."""

import json
import sys

import httpx

order = json.loads(sys.argv[1])
method = "GET" if order["body"] is None else "POST"
answer = httpx.request(method, order["url"], json=order["body"], headers=order["headers"], timeout=60)
try:
    body = answer.json()
except ValueError:
    body = answer.text
print(json.dumps({"status": answer.status_code, "headers": dict(answer.headers), "body": body}))
