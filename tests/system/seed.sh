#!/bin/bash
# The demo as a test: the user's document from end to end, on ports of its own.
set -u
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ]; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
export REGISTRY_PORT=5079 GATEWAY_PORT=0 DEMO_FOLDER=build/check/demo POOL_MEBIBYTES=16384
tests/demo/platform.sh down $DEMO_FOLDER
status=1
if tests/demo/demo.sh && [ "$(head -c 4 $DEMO_FOLDER/chart.png | tail -c 3)" = PNG ]; then
    status=0
    echo "1 passed, 0 failed"
else
    tail -n 20 $DEMO_FOLDER/*.log
    echo "0 passed, 1 failed"
fi
tests/demo/platform.sh down $DEMO_FOLDER
exit $status
