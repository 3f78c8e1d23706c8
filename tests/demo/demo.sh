#!/bin/bash
# The main job, end to end, as a backend developer meets it: a Space with limits, a Template, its
# build, the policy, a WORKLOAD user, and untrusted Python in an ephemeral sandbox through the
# published SDK. Prints each step with its time and ends "demo: ok".
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${DEMO_FOLDER:-build/demo}
seed=testdata/seed
base=build/base
sum=0

die() {
    echo "demo: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || die "must be root: the executor makes namespaces, mounts and cgroups; run it with sudo"

# step TEXT COMMAND...: runs it, shows its output only when it fails, prints its time.
step() {
    text=$1
    shift
    began=$(date +%s%N)
    "$@" >"$folder/step.log" 2>&1 </dev/null || {
        cat "$folder/step.log" >&2
        die "failed: $text"
    }
    ms=$((($(date +%s%N) - began) / 1000000))
    sum=$((sum + ms))
    printf '%-56s %7d ms\n' "$text" "$ms"
}

have() {
    cordium get "$@" >/dev/null 2>&1
}

# Names that builds must reach may have addresses that are not public (a company's mirror): these
# are allowed one by one, and everything else stays shut.
private_addresses() {
    for name in pypi.org files.pythonhosted.org deb.debian.org; do
        getent ahostsv4 "$name" | awk '{print $1}'
    done | sort -u | grep -E '^(10\.|100\.6[4-9]\.|172\.(1[6-9]|2[0-9]|3[01])\.|192\.168\.|198\.1[89]\.|203\.0\.113\.|198\.51\.100\.|192\.0\.2\.)' || true
}

# DEMO_RECIPE=debian asks for the recipe without PyPI.
pypi_is_reachable() {
    [ "${DEMO_RECIPE:-pypi}" = pypi ] || return 1
    curl -fsS --max-time 15 -o /dev/null https://pypi.org/simple/numpy/ 2>/dev/null
}

mkdir -p $folder
chmod 755 $folder
step "base image (Debian 13, python3.13)" tests/demo/base-image.sh $base
allow=$(private_addresses | sed 's,$,/32,' | tr '\n' ' ')
[ -z "$allow" ] || echo "builds may reach the package registries at: $allow"
export BUILD_ALLOW=$allow GATEWAY_PORT=${GATEWAY_PORT:-8443}
step "registry, executor, gateway up" tests/demo/platform.sh up $folder
. $folder/env
export CORDIUM_DOMAIN OCTELIUM_DOMAIN CORDIUM_SERVER CORDIUM_CA_FILE OCTELIUM_HOME OCTELIUM_AUTH_TOKEN PATH
step "base image into the registry" env BASE_DIRECTORY=$base tests/demo/registry.sh push $folder/registry

template=$seed/python-sandbox.yaml
if ! pypi_is_reachable; then
    echo "PyPI cannot be reached from here: the Template takes Debian's numpy, pandas, matplotlib and scipy instead"
    template=$folder/python-sandbox.yaml
    awk -v recipe=tests/demo/recipes/debian.Dockerfile '
        /inline: \|/ { print; while ((getline line < recipe) > 0) print "        " line; skip = 1; next }
        skip && /^        / { next }
        { skip = 0; print }' $seed/python-sandbox.yaml >$template
fi

if ! have space sandboxes.cordium; then
    step "cordium create space sandboxes.cordium" cordium create space sandboxes.cordium
fi
step "limits and disableSSH for the Space" cordium update space sandboxes.cordium --file $seed/space.yaml
if ! have template python-sandbox.sandboxes.cordium; then
    step "cordium create template python-sandbox.sandboxes.cordium" \
        cordium create template python-sandbox.sandboxes.cordium --file $template
fi
if ! cordium get template python-sandbox.sandboxes.cordium | grep -q currentReadyBuildID; then
    step "cordium build python-sandbox.sandboxes.cordium" cordium build python-sandbox.sandboxes.cordium
fi
step "octeliumctl apply deny-sandboxes.yaml" octeliumctl apply $seed/deny-sandboxes.yaml
if ! have user backend; then
    step "WORKLOAD user, member of the Space" bash -c "cordium create user backend --type WORKLOAD &&
        cordium create membership --space sandboxes.cordium --user backend"
fi
if [ ! -s $folder/backend.token ]; then
    (umask 077 && cordium create credential backend --user backend >$folder/backend.token) 2>/dev/null ||
        die "no credential for the user"
fi

run_program() {
    OCTELIUM_AUTH_TOKEN=$(cat $folder/backend.token) build/venv/bin/python $seed/untrusted.py $folder/chart.png
}
rm -f $folder/chart.png
step "the document's Python program" run_program
sed 's/^/    /' $folder/step.log
[ -s $folder/chart.png ] || die "the chart did not come back"
echo "    chart: $folder/chart.png, $(stat -c %s $folder/chart.png) bytes"

denied() {
    name=$(OCTELIUM_AUTH_TOKEN=$(cat $folder/backend.token) OCTELIUM_HOME=$folder/home-backend \
        cordium run --template python-sandbox.sandboxes.cordium --ephemeral --rm -- cordium get workspaces 2>&1) && return 1
    grep -q "deny-sandboxes" <<<"$name"
}
step "inside the sandbox the API is denied by deny-sandboxes" denied
printf '%-56s %7d ms\n' "all steps" $sum
echo "the platform goes on running: make demo-down stops it; '. $folder/env' makes this shell its admin"
echo "demo: ok"
