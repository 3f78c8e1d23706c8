#!/bin/bash
# What a sandbox costs, beside bubblewrap: starts a platform of its own, measures, takes it down.
#   bench.sh [ROUNDS]      KEEP=1 leaves the platform running for the next time
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-100}
folder=build/bench/platform
base=build/base
rootfs=build/bench/rootfs
[ "$(id -u)" = 0 ] || { echo "bench-quick needs root: the executor makes namespaces and cgroups"; exit 1; }
command -v bwrap >/dev/null || { echo "bench-quick needs bwrap: apt-get install bubblewrap"; exit 1; }
mkdir -p build/bench
export REGISTRY_PORT=${REGISTRY_PORT:-5082} GATEWAY_PORT=0 POOL_MEBIBYTES=${POOL_MEBIBYTES:-8192} TRACE=true
export GATEWAY_UID=${GATEWAY_UID:-57943}
[ "${KEEP:-0}" = 1 ] || trap 'tests/demo/platform.sh down $folder' EXIT
tests/demo/base-image.sh $base >/dev/null
tests/demo/platform.sh up $folder
. $folder/env
if [ ! -f $folder/bench-ready ]; then
    BASE_DIRECTORY=$base tests/demo/registry.sh push $folder/registry >/dev/null
    cordium create space bench.cordium -f - >/dev/null <<YAML
spec:
  limit:
    defaultLimit: {cpu: {millicores: 1000}, memory: {megabytes: 256}, storage: {megabytes: 200}}
    maxLimit: {cpu: {millicores: 2000}, memory: {megabytes: 1024}, storage: {megabytes: 1000}}
YAML
    cordium create template box.bench.cordium -f - >/dev/null <<YAML
spec:
  image: {registry: {url: "docker.io/library/busybox:latest"}}
  runtime:
    filesystem: {readOnly: true}
    network: {egress: {defaultAction: DENY}}
YAML
    cordium build box.bench.cordium >/dev/null 2>&1
    touch $folder/bench-ready
fi
if [ ! -d $rootfs/rootfs ]; then
    rm -rf $rootfs
    umoci unpack --image $base/busybox:latest $rootfs >/dev/null 2>&1
    mkdir -p $rootfs/rootfs/proc $rootfs/rootfs/dev $rootfs/rootfs/tmp # where bwrap mounts
fi
instance=$(sed -n 's/^instance = //p' $folder/executor.conf)
cgroup=/sys/fs/cgroup/memory/$instance
[ -d "$cgroup" ] || cgroup=/sys/fs/cgroup/$instance
"build/${BUILD:-release}/sandbox_bench" --rounds "$rounds" --template box.bench.cordium --rootfs $rootfs/rootfs \
    --executor $folder/run/executor.sock --gateway-uid "$GATEWAY_UID" \
    --gateway-pid "$(cat $folder/gateway.pid)" --executor-pid "$(cat $folder/executor.pid)" \
    --gateway-log $folder/gateway.log --executor-log $folder/executor.log --cgroup "$cgroup"
