#!/bin/bash
# Runs every program of a folder through the product and prints one line each:
#   run.sh CASES-FOLDER [NAME-PART...]
# The platform is one of its own in build/cases. Its Template (a C compiler, numpy, matplotlib beside
# Python) is built once and kept there: CLEAN=1 takes all of it down at the end.
set -u
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { echo "usage: run.sh CASES-FOLDER [NAME-PART...]" >&2; exit 64; }
cases=$(cd "$1" && pwd) || exit 66
shift
folder=build/cases
if [ "$(id -u)" != 0 ]; then
    echo "the cases need root: the executor makes namespaces, mounts and cgroups"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
mkdir -p $folder
export REGISTRY_PORT=${REGISTRY_PORT:-5082} GATEWAY_PORT=0 POOL_MEBIBYTES=${POOL_MEBIBYTES:-8192}
# Where the Template's packages come from, when that is a private address here.
BUILD_ALLOW=$(getent ahostsv4 deb.debian.org | awk '{print $1}' | sort -u |
    grep -E '^(10\.|172\.(1[6-9]|2[0-9]|3[01])\.|192\.168\.|203\.0\.113\.|198\.51\.100\.|192\.0\.2\.)' |
    sed 's,$,/32,' | tr '\n' ' ')
export BUILD_ALLOW
# A canary in the daemons' environment: no program may see it.
export SBX_CANARY_SECRET=do-not-leak

cordium() {
    (. $folder/env && build/release/cordium "$@")
}

fail() {
    echo "$1"
    tail -n 5 $folder/*.log
    echo "0 passed, 1 failed"
    exit 1
}

tests/demo/base-image.sh build/base && tests/demo/platform.sh up $folder || fail "the platform did not start"
BASE_DIRECTORY=build/base tests/demo/registry.sh push $folder/registry >/dev/null || fail "no registry"
cordium get space cases.admin >/dev/null 2>&1 || cordium create space cases.admin >/dev/null || fail "no Space"
if ! cordium get template box.cases.admin 2>/dev/null | grep -q currentReadyBuildID; then
    echo "building the Template box.cases.admin (once; about two minutes)"
    cordium get template box.cases.admin >/dev/null 2>&1 ||
        cordium create template box.cases.admin --file tests/cases/template.yaml >/dev/null || fail "no Template"
    cordium build box.cases.admin >$folder/build.log 2>&1 || fail "the Template cannot be built"
fi
python3 tests/cases/run_cases.py $folder "$cases" "$@"
status=$?
if [ "${CLEAN:-0}" = 1 ]; then
    tests/demo/platform.sh down $folder
else
    for name in gateway executor; do
        kill "$(cat $folder/$name.pid)" 2>/dev/null
    done
    tests/demo/registry.sh stop $folder/registry
fi
exit $status
