#!/usr/bin/env bash
# Installs the server of S3's protocol that the tests of objects start (tests/s3/server.py). Does nothing if it is there.
. "$(dirname "$0")/lib.sh"

pip_install moto 5.2.5
pip_install flask 3.1.3
pip_install flask-cors 6.0.5
pip_install py-partiql-parser 0.6.3
