#!/bin/sh
# The demo's registry: Debian's docker-registry on the loopback, holding the base images under the
# names that Docker Hub has for them. A registries.conf mirror makes `FROM python:3.13-slim` find it.
#
# usage: registry.sh start|stop|status|push [STATE-DIRECTORY]      (default: build/demo/registry)
#
#     start   starts it on 127.0.0.1:$REGISTRY_PORT (default 5077); nothing when it runs already
#     push    puts the layouts of base-image.sh ($BASE_DIRECTORY, default build/base) in it
#     stop    ends it; what it holds stays in the state directory
#     status  prints "running PID PORT" or "stopped" (exit code 3)
set -eu

die() {
	echo "registry: $*" >&2
	exit 1
}

# The pid that we started, when it is still that program: a pid can be given to another.
running_pid() {
	[ -f "$state/pid" ] || return 1
	pid=$(cat "$state/pid")
	[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$(readlink -f "$program")" ] || return 1
	echo "$pid"
}

# A registry that answers says that the repository is unknown; one that does not fails at the ping.
ready() {
	! skopeo list-tags --tls-verify=false "docker://127.0.0.1:$port/library/none" 2>&1 |
		grep -q 'pinging container registry'
}

start() {
	if running_pid >/dev/null; then
		return
	fi
	cat >"$state/config.yml" <<CONFIG
version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: $state/data}
  delete: {enabled: true}
http:
  addr: 127.0.0.1:$port
CONFIG
	# A session of its own, so that the end of the terminal or of the caller does not end it.
	setsid "$program" serve "$state/config.yml" >"$state/log" 2>&1 </dev/null &
	echo $! >"$state/pid"
	tries=0
	until ready; do
		tries=$((tries + 1))
		running_pid >/dev/null || die "ended at once; see $state/log"
		[ $tries -lt 100 ] || die "does not answer on 127.0.0.1:$port; see $state/log"
		sleep 0.1
	done
	echo "registry: 127.0.0.1:$port, pid $(cat "$state/pid")"
}

stop() {
	if pid=$(running_pid); then
		kill "$pid"
		tries=0
		while running_pid >/dev/null && [ $tries -lt 50 ]; do
			tries=$((tries + 1))
			sleep 0.1
		done
		running_pid >/dev/null && kill -KILL "$pid"
	fi
	rm -f "$state/pid"
}

push_one() {
	[ -f "$base/$1/index.json" ] || die "no $base/$1: run base-image.sh first"
	skopeo --insecure-policy copy --quiet --dest-tls-verify=false \
		"oci:$base/$1:$2" "docker://127.0.0.1:$port/library/$3" || die "cannot push $3"
	echo "registry: pushed library/$3"
}

program=$(command -v docker-registry) || die "docker-registry is missing: apt-get install docker-registry"
command -v skopeo >/dev/null || die "skopeo is missing: apt-get install skopeo"
cd "$(dirname "$0")/../.."
port=${REGISTRY_PORT:-5077}
base=${BASE_DIRECTORY:-build/base}
state=${2:-build/demo/registry}
mkdir -p "$state/data"
state=$(cd "$state" && pwd)
case ${1:-} in
start) start ;;
stop) stop ;;
push)
	push_one python-3.13-slim 3.13-slim python:3.13-slim
	push_one busybox latest busybox:latest
	;;
status)
	if pid=$(running_pid); then
		echo "running $pid $port"
	else
		echo stopped
		exit 3
	fi
	;;
*) die "usage: registry.sh start|stop|status|push [STATE-DIRECTORY]" ;;
esac
