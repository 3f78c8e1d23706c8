#!/bin/bash
# The audit log as a whole, on a platform of its own: what unit and system tests there are of it, both
# daemons killed at random under load and the log held against the world, verification offline, secrets,
# forgery, and what it costs. Ends with one line "N passed, N failed".
#   KILL_SECONDS=60 | MINUTES=10   how long daemons are killed        SEED=N   the same kills again
#   LINES=50000                    of the log that is generated and asked
set -u
cd "$(dirname "$0")/../.."
folder=build/check/audit-platform
python=build/venv/bin/python
if [ "$(id -u)" != 0 ]; then
    echo "check-audit needs root: the executor makes namespaces, mounts and cgroups"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
kill_options="--seconds ${KILL_SECONDS:-60}"
[ -z "${MINUTES:-}" ] || kill_options="--minutes $MINUTES"
[ -z "${SEED:-}" ] || kill_options="$kill_options --seed $SEED"
mkdir -p build/check
export REGISTRY_PORT=${REGISTRY_PORT:-5086} GATEWAY_PORT=0 POOL_MEBIBYTES=16384
tests/demo/platform.sh down $folder
tests/demo/base-image.sh build/base && tests/demo/platform.sh up $folder >/dev/null &&
    BASE_DIRECTORY=build/base tests/demo/registry.sh push $folder/registry >/dev/null || {
    tail -n 20 $folder/*.log
    echo "0 passed, 1 failed"
    exit 1
}

steps=()
for file in tests/unit/gateway/test_audit*.c; do
    suite=$(basename "$file" .c)
    suite=${suite#test_}
    steps+=("audit-unit-$suite=CK_FORK=no CK_RUN_SUITE=$suite build/release/tests/unit/gateway/runner")
done
for test in audit auditlog auditservice auditcli; do
    steps+=("audit-system-$test=$python tests/system/test_$test.py $folder")
done
# Last the long log of the kills, which the others would have to read.
steps+=("audit-secrets=$python tests/audit/test_secrets.py $folder"
    "audit-forgery=$python tests/audit/test_forgery.py $folder"
    "audit-kill=$python tests/audit/kill_reconcile.py $folder $kill_options"
    "audit-offline=$python tests/audit/test_offline.py $folder"
    "audit-figures=$python tests/audit/figures.py $folder build/release ${LINES:-50000}")
tests/check.sh "${steps[@]}" >build/check/audit.txt
code=$?
head -n -1 build/check/audit.txt
grep -h -e '^seed' -e '^      ' build/check/audit-{kill,offline,secrets}.log
grep -h '^figure: ' build/check/audit-figures.log
tail -n 1 build/check/audit.txt
[ $code = 0 ] && tests/demo/platform.sh down $folder || echo "the platform is left in $folder" >&2
exit $code
