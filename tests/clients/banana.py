"""Drives a host with banana's own SDK: banana.py URL ROUTE call|warmup|patient

`call` posts {"a": 1}, `warmup` warms up, `patient` calls until the host has a place for it. Prints the answer and its id as
JSON on the last line; before it whatever the SDK prints, which is each refusal.
"""

import json
import sys

from banana_dev import Client

url, route, what = sys.argv[1:]
client = Client(api_key="none", url=url, verbosity="DEBUG")
if what == "warmup":
    answer, meta = client.warmup()
else:
    answer, meta = client.call(route, {"a": 1}, retry=what == "patient", retry_timeout=60)
print(json.dumps({"answer": answer, "id": meta["headers"]["x-banana-request-id"]}))
