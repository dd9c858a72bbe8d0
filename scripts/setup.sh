#!/usr/bin/env bash
# Gets everything that building, testing and the demo need and that is not there yet; run by `make setup`. The other targets
# get what they need by themselves, so this is for doing it ahead of time.
. "$(dirname "$0")/lib.sh"
. scripts/guest-toolchain.sh

require_guest_toolchain
scripts/onnxruntime.sh
scripts/tensorflow.sh
scripts/example-models.sh
scripts/build-guests-py.sh --tools
scripts/build-guests-js.sh --tools
scripts/clients.sh
scripts/openapi.sh
scripts/types.sh
scripts/browser.sh
scripts/redis.sh
scripts/prometheus.sh
scripts/s3.sh
scripts/zig.sh
scripts/wasi-wheels.sh --tests
step "set up"
