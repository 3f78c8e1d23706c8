#!/bin/bash
# Starts a platform of its own, measures what a quiet workspace notices of hostile ones, takes it down.
# NEIGHBOURS is the program that the hostile ones run.
set -u
cd "$(dirname "$0")/../.."
folder=build/check/neighbours
export REGISTRY_PORT=${REGISTRY_PORT:-5079} GATEWAY_PORT=0 POOL_MEBIBYTES=16384
mkdir -p build/check
tests/demo/platform.sh down $folder
tests/demo/base-image.sh build/base && tests/demo/platform.sh up $folder &&
    BASE_DIRECTORY=build/base tests/demo/registry.sh push $folder/registry || {
    tail -n 20 $folder/*.log
    echo "0 passed, 1 failed"
    exit 1
}
status=0
build/venv/bin/python tests/attack/neighbours.py $folder "$NEIGHBOURS" || status=1
tests/demo/platform.sh down $folder || status=1
exit $status
