#!/bin/bash
# Starts and stops a whole platform of its own below one folder: registry, executor, gateway.
#   platform.sh up FOLDER      writes FOLDER/env, to be sourced: where it is, who the admin is
#   platform.sh down FOLDER    stops it and removes what it made, images and workspaces too
# Settings: GATEWAY_PORT (0: any), REGISTRY_PORT, GATEWAY_UID, BUILD (variant of the programs),
# TRACE=true (both daemons log where the time goes).
set -euo pipefail
cd "$(dirname "$0")/../.."
action=${1:-}
folder=${2:-}
out=build/${BUILD:-release} # of both daemons and the clients; what runs inside sandboxes is never sanitized
gateway_uid=${GATEWAY_UID:-57943}
registry_port=${REGISTRY_PORT:-5077}

die() {
    echo "platform: $*" >&2
    exit 1
}

[ -n "$folder" ] || die "usage: platform.sh up|down FOLDER"
[ "$(id -u)" = 0 ] || die "must be root: the executor makes namespaces, mounts and cgroups; run it with sudo"

# The pid in a file, when it is still that program (which may have been built anew since).
alive() {
    [ -f "$1" ] || return 1
    exe=$(readlink "/proc/$(cat "$1")/exe" 2>/dev/null) || return 1
    [ "${exe% (deleted)}" = "$(readlink -f "$2")" ]
}

end() {
    alive "$1" "$2" || { rm -f "$1"; return 0; }
    pid=$(cat "$1")
    kill "$pid"
    for _ in $(seq 100); do
        alive "$1" "$2" || break
        sleep 0.1
    done
    alive "$1" "$2" && kill -KILL "$pid"
    rm -f "$1"
}

# Until a file is there, or the process of a pid file is gone.
wait_for() {
    for _ in $(seq 600); do
        [ -e "$1" ] && return 0
        kill -0 "$(cat "$2")" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

write_config() {
    mkdir -p "$folder/executor" "$folder/run" "$folder/gateway"
    chmod 755 "$folder" "$folder/run"
    chmod 700 "$folder/executor" "$folder/gateway"
    chown "$gateway_uid:$gateway_uid" "$folder/gateway"
    cat >"$folder/executor.conf" <<CONF
state_dir = $folder/executor
runtime_dir = $folder/run
tools_dir = $PWD/build/release/sandbox-tools
launcher_path = $PWD/build/release/cordium-launcher
instance = $instance
gateway_uid = $gateway_uid
pool_mebibytes = ${POOL_MEBIBYTES:-49152}
build_allow = ${BUILD_ALLOW:-}
build_loopback_ports = $registry_port
CONF
    [ -n "${BUILD_ALLOW:-}" ] || sed -i '/^build_allow/d' "$folder/executor.conf"
    cat >"$folder/gateway.yaml" <<CONF
domain: localhost
stateDir: $folder/gateway
executorSocket: $folder/run/executor.sock
listen:
  port: ${GATEWAY_PORT:-0}
build:
  mirrors: ["docker.io=host.cordium.internal:$registry_port,insecure"]
CONF
    [ ! -f "${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}" ] ||
        echo "  caBundle: ${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}" >>"$folder/gateway.yaml"
    # What a test wants beside it, see tests/system/test_telemetry.py.
    [ ! -f "$folder/gateway.more.yaml" ] || cat "$folder/gateway.more.yaml" >>"$folder/gateway.yaml"
    if [ "${TRACE:-false}" = true ]; then
        echo "trace = true" >>"$folder/executor.conf"
        printf 'debug:\n  trace: true\n' >>"$folder/gateway.yaml"
    fi
    chmod 644 "$folder/executor.conf" "$folder/gateway.yaml"
}

drop() {
    setpriv --reuid="$gateway_uid" --regid="$gateway_uid" --clear-groups -- "$@"
}

# The topmost folder above us that the gateway's user may not enter, such as /root.
closed_folder() {
    path=
    for name in $(pwd -P | tr '/' ' '); do
        path=$path/$name
        drop test -x "$path" || { echo "$path"; return; }
    done
}

# Runs a command as the gateway's user. Where a folder above us is closed to it, it gets a view of
# its own in which only this folder is to be seen there; the folder itself stays closed.
as_gateway() {
    closed=$(closed_folder)
    if [ -z "$closed" ]; then
        exec setpriv --reuid="$gateway_uid" --regid="$gateway_uid" --clear-groups -- "$@"
    fi
    exec unshare --mount --propagation private -- bash -c '
        set -e
        exec 3<"$1"
        mount -t tmpfs -o mode=0755,size=64k none "$2"
        mkdir -p "$1"
        mount --no-canonicalize --bind /proc/self/fd/3 "$1"
        exec 3<&-
        cd "$1"
        uid=$3
        shift 3
        exec setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$@"' \
        view "$(pwd -P)" "$closed" "$gateway_uid" "$@"
}

start_executor() {
    alive "$folder/executor.pid" "$out/cordium-executor" && return
    rm -f "$folder/run/executor.sock"
    setsid "$out/cordium-executor" --config "$folder/executor.conf" >>"$folder/executor.log" 2>&1 </dev/null &
    echo $! >"$folder/executor.pid"
    wait_for "$folder/run/executor.sock" "$folder/executor.pid" ||
        die "the executor did not start: $(tail -n 3 "$folder/executor.log")"
}

start_gateway() {
    if [ ! -f "$folder/admin.token" ]; then
        (as_gateway "$out/cordium-gateway" init --config "$folder/gateway.yaml") >"$folder/admin.token.new" ||
            die "the gateway's state could not be made"
        chmod 600 "$folder/admin.token.new"
        mv "$folder/admin.token.new" "$folder/admin.token"
    fi
    alive "$folder/gateway.pid" "$out/cordium-gateway" && return
    rm -f "$folder/gateway/port"
    export -f as_gateway closed_folder drop
    gateway_uid=$gateway_uid setsid bash -c 'as_gateway "$@"' start "$out/cordium-gateway" \
        --config "$folder/gateway.yaml" >>"$folder/gateway.log" 2>&1 </dev/null &
    echo $! >"$folder/gateway.pid"
    wait_for "$folder/gateway/port" "$folder/gateway.pid" ||
        die "the gateway did not start: $(tail -n 3 "$folder/gateway.log")"
}

write_env() {
    cp "$folder/gateway/tls/ca.pem" "$folder/ca.pem"
    chmod 644 "$folder/ca.pem"
    cat >"$folder/env" <<ENV
export CORDIUM_DOMAIN=localhost OCTELIUM_DOMAIN=localhost
export CORDIUM_SERVER=127.0.0.1:$(cat "$folder/gateway/port")
export CORDIUM_CA_FILE=$folder/ca.pem
export OCTELIUM_HOME=$folder/home
export OCTELIUM_AUTH_TOKEN=$(cat "$folder/admin.token")
export PATH=$PWD/$out:\$PATH
ENV
    chmod 600 "$folder/env"
}

up() {
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd)
    instance=${INSTANCE:-c$(printf '%s' "$folder" | cksum | cut -c1-6)}
    write_config
    if [ "${NO_REGISTRY:-0}" != 1 ]; then
        REGISTRY_PORT=$registry_port tests/demo/registry.sh start "$folder/registry"
    fi
    start_executor
    start_gateway
    write_env
}

down() {
    [ -d "$folder" ] || return 0
    folder=$(cd "$folder" && pwd)
    end "$folder/gateway.pid" "$out/cordium-gateway"
    end "$folder/executor.pid" "$out/cordium-executor"
    tests/demo/registry.sh stop "$folder/registry"
    rm -rf --one-file-system "$folder"
}

case $action in
up) up ;;
down) down ;;
*) die "usage: platform.sh up|down FOLDER" ;;
esac
