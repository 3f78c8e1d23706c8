#!/bin/bash
# Starts a platform of its own, tries the known ways out of sandboxes on it, takes it down.
#   run.sh [ROW...]        only these rows of the table; KEEP=1 leaves the platform running
set -u
cd "$(dirname "$0")/../.."
folder=build/attack/platform
export REGISTRY_PORT=${REGISTRY_PORT:-5173} GATEWAY_PORT=0 POOL_MEBIBYTES=16384
if [ "$(id -u)" != 0 ]; then
    echo "the attacks need root: the executor makes namespaces, mounts and cgroups"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
[ "${KEEP:-0}" = 1 ] || tests/demo/platform.sh down $folder
tests/demo/base-image.sh build/base && tests/demo/platform.sh up $folder || {
    tail -n 20 $folder/*.log
    echo "0 passed, 1 failed"
    exit 1
}
build/venv/bin/python tests/attack/attack.py $folder "$@"
status=$?
if [ "${KEEP:-0}" != 1 ]; then
    [ $status = 0 ] || { echo "== logs"; tail -n 20 $folder/executor.log $folder/gateway.log; }
    tests/demo/platform.sh down $folder || status=1
fi
exit $status
