"""A server of S3's protocol that checks signatures, for the tests of objects:
`server.py PORT BUCKET ACCESS_KEY SECRET_KEY [CERTIFICATE KEY]`, with these two files over TLS. At port 0 it takes a free one;
`ready PORT` is printed once it answers.

It is moto, whose check is botocore's own signature. The bucket may be in the path or before the host's name. What it stores is
gone with it.
"""

import functools
import os
import sys
import threading

PORT, BUCKET, ACCESS_KEY, SECRET_KEY, *TLS = sys.argv[1:]
# The four requests below need no signature, and no other goes without.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"

import boto3  # noqa: E402
from moto.core import DEFAULT_ACCOUNT_ID  # noqa: E402
from moto.iam.models import iam_backends  # noqa: E402
from moto.moto_server import threaded_moto_server  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

if TLS:
    threaded_moto_server.make_server = functools.partial(threaded_moto_server.make_server, ssl_context=tuple(TLS))
server = ThreadedMotoServer("127.0.0.1", int(PORT), verbose=False)
server.start()
_, PORT = server.get_host_and_port()


def client(service):
    return boto3.client(
        service,
        endpoint_url=f"{'https' if TLS else 'http'}://127.0.0.1:{PORT}",
        verify=TLS[0] if TLS else None,
        region_name="us-east-1",
        aws_access_key_id="setup",
        aws_secret_access_key="setup",
    )


iam = client("iam")
iam.create_user(UserName="host")
policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
iam.put_user_policy(UserName="host", PolicyName="all", PolicyDocument=policy)
iam.create_access_key(UserName="host")
client("s3").create_bucket(Bucket=BUCKET)
(key,) = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].users["host"].access_keys
key.access_key_id, key.secret_access_key = ACCESS_KEY, SECRET_KEY
print(f"ready {PORT}", flush=True)
threading.Event().wait()
