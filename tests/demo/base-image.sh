#!/bin/sh
# Makes the two base images of the demo as OCI layouts, from Debian's packages alone:
#
#     python-3.13-slim   stands in for docker.io/library/python:3.13-slim: Debian 13 with its
#                        python3.13, pip and venv; `python`, `python3`, `pip` on PATH in
#                        /usr/local/bin, pip installs without asking, CMD ["python3"]
#     busybox            one static busybox: an image with no libc, no /etc/passwd, no bash
#
# usage: base-image.sh [DIRECTORY]        (default: build/base)
#
# Needs root, mmdebstrap and busybox-static. A layout that is there already is kept: delete the
# directory to make it anew. DEBIAN_MIRROR overrides the mirror of the machine's own apt sources.
set -eu

die() {
	echo "base-image: $*" >&2
	exit 1
}

mirror() {
	if [ -n "${DEBIAN_MIRROR:-}" ]; then
		echo "$DEBIAN_MIRROR"
		return
	fi
	# The first mirror of Debian proper that apt uses here, in either of its two formats.
	for f in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -f "$f" ] || continue
		found=$(sed -n -e 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' \
			-e 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p' "$f" |
			grep '/debian/*$' | head -n 1)
		if [ -n "$found" ]; then
			echo "$found"
			return
		fi
	done
	echo http://deb.debian.org/debian
}

# blob LAYOUT FILE: moves FILE into the layout's blobs and prints "DIGEST SIZE".
blob() {
	blob_digest=$(sha256sum "$2" | cut -d ' ' -f 1)
	blob_size=$(stat -c %s "$2")
	mv "$2" "$1/blobs/sha256/$blob_digest"
	echo "$blob_digest $blob_size"
}

# layout NAME TAG TAR CONFIG: an OCI layout of one layer. CONFIG is the JSON of its "config" member.
layout() {
	made=$out/$1.new
	rm -rf "$made"
	mkdir -p "$made/blobs/sha256"
	diff_id=$(sha256sum "$3" | cut -d ' ' -f 1)
	gzip -n -1 <"$3" >"$made/layer"
	set -- "$1" "$2" "$3" "$4" $(blob "$made" "$made/layer")
	layer="{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:$5\",\"size\":$6}"
	printf '{"created":"1970-01-01T00:00:00Z","architecture":"amd64","os":"linux","config":%s,%s}' "$4" \
		"\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$diff_id\"]},
\"history\":[{\"created\":\"1970-01-01T00:00:00Z\",\"created_by\":\"base-image.sh\"}]" >"$made/config"
	set -- "$1" "$2" "$layer" $(blob "$made" "$made/config")
	printf '{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s","digest":"sha256:%s","size":%s},"layers":[%s]}' \
		application/vnd.oci.image.manifest.v1+json application/vnd.oci.image.config.v1+json \
		"$4" "$5" "$3" >"$made/manifest"
	set -- "$1" "$2" $(blob "$made" "$made/manifest")
	printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s","digest":"sha256:%s","size":%s,%s}]}' \
		application/vnd.oci.image.manifest.v1+json "$3" "$4" \
		"\"annotations\":{\"org.opencontainers.image.ref.name\":\"$2\"}" >"$made/index.json"
	echo '{"imageLayoutVersion":"1.0.0"}' >"$made/oci-layout"
	rm -rf "${out:?}/$1"
	mv "$made" "$out/$1"
	echo "base-image: made $1:$2"
}

make_python() {
	[ -f "$out/python-3.13-slim/index.json" ] && return
	mmdebstrap --quiet --mode=root --variant=minbase --format=tar \
		--include=python3,python3-pip,python3-venv,ca-certificates,netbase,tzdata \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--customize-hook='rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED' \
		--customize-hook='ln -s ../../bin/python3 "$1"/usr/local/bin/python3' \
		--customize-hook='ln -s python3 "$1"/usr/local/bin/python' \
		--customize-hook='ln -s ../../bin/pip3 "$1"/usr/local/bin/pip3' \
		--customize-hook='ln -s pip3 "$1"/usr/local/bin/pip' \
		--customize-hook='rm -f "$1"/etc/hostname "$1"/etc/resolv.conf' \
		trixie "$out/python.tar" "$(mirror)" ||
		die "mmdebstrap failed; is $(mirror) reachable, and does it carry trixie?"
	layout python-3.13-slim 3.13-slim "$out/python.tar" '{
"Env":["PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin","LANG=C.UTF-8"],
"Cmd":["python3"]}'
	rm -f "$out/python.tar"
}

make_busybox() {
	[ -f "$out/busybox/index.json" ] && return
	[ -x /bin/busybox ] || die "no /bin/busybox: apt-get install busybox-static"
	root=$out/busybox.root
	rm -rf "$root"
	mkdir -p "$root/bin" "$root/etc" "$root/tmp"
	chmod 1777 "$root/tmp"
	cp /bin/busybox "$root/bin/busybox"
	for applet in $(/bin/busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
	done
	tar --numeric-owner --owner=0 --group=0 --sort=name --mtime=@0 -C "$root" -cf "$out/busybox.tar" .
	layout busybox latest "$out/busybox.tar" '{"Env":["PATH=/bin"],"Cmd":["sh"]}'
	rm -rf "$root" "$out/busybox.tar"
}

[ "$(id -u)" = 0 ] || die "must run as root (mmdebstrap makes a root file system)"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
cd "$(dirname "$0")/../.."
out=${1:-build/base}
mkdir -p "$out"
out=$(cd "$out" && pwd)
make_python
make_busybox
