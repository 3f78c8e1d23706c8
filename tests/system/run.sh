#!/bin/bash
# Starts a platform of its own, runs the system tests on it with the real SDK, takes it down.
#   run.sh [TEST-FILE...]        KEEP=1 leaves the platform running
# BUILD=asan or ubsan: with daemons and clients of that variant; each of their reports is a failure.
set -u
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-release}
folder=build/check/platform
[ "$BUILD" = release ] || folder=$folder-$BUILD
python=build/venv/bin/python
tests=${*:-daemons auth exec revocation run runedges network build policy policytools policyonline policyload errors cli doctor probe audit auditlog auditservice auditcli telemetry}
if [ "$(id -u)" != 0 ]; then
    echo "the system tests need root: the executor makes namespaces, mounts and cgroups"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
mkdir -p build/check
reports=$PWD/build/check/reports-$BUILD
rm -rf "$reports"
mkdir -m 1777 "$reports" # the gateway is another user
export ASAN_OPTIONS=log_path=$reports/asan UBSAN_OPTIONS=log_path=$reports/ubsan:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/system/leaks.supp:print_suppressions=0
export REGISTRY_PORT=${REGISTRY_PORT:-5078} GATEWAY_PORT=0 POOL_MEBIBYTES=16384
[ "${KEEP:-0}" = 1 ] || tests/demo/platform.sh down $folder
tests/demo/base-image.sh build/base && tests/demo/platform.sh up $folder &&
    BASE_DIRECTORY=build/base tests/demo/registry.sh push $folder/registry || {
    tail -n 20 $folder/*.log
    echo "0 passed, 1 failed"
    exit 1
}
status=0
for t in $tests; do
    echo "== $t"
    $python tests/system/test_"$t".py $folder || status=1
done
if [ "${KEEP:-0}" != 1 ]; then
    [ $status = 0 ] || { echo "== logs"; tail -n 30 $folder/executor.log $folder/gateway.log; }
    tests/demo/platform.sh down $folder || status=1
fi
for report in "$reports"/*; do
    [ -e "$report" ] || break
    echo "== $report"
    head -n 60 "$report"
    echo "0 passed, 1 failed"
    status=1
done
exit $status
