"""Calls an endpoint as Inferless's users do: `inferless.call(url, key, data={...})`.

Arguments: the URL, the data as a JSON object, whether it is a batch (`True` or `False`). Prints the outputs as a JSON object, `{name: [datatype, shape, data]}`, or, if the call
fails, what the client says of it, as `{"error": text}`.
"""

import json
import sys

import inferless

url, data, is_batch = sys.argv[1:]
try:
    answer = inferless.call(url, "a-key", data=json.loads(data), is_batch=is_batch == "True")
except Exception as error:  # The client raises nothing more specific.
    print(json.dumps({"error": str(error)}))
else:
    print(json.dumps({out["name"]: [out["datatype"], out["shape"], out["data"]] for out in answer["outputs"]}))
