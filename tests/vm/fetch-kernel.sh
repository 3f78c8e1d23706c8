#!/bin/bash
# Gets Debian's kernel of one release and unpacks it; nothing is installed.
#   fetch-kernel.sh SUITE DIR     -> DIR/vmlinuz, DIR/modules/lib/modules/VERSION, DIR/version
# The host's own apt sources stay as they are: the lists live in DIR.
set -euo pipefail
suite=$1
dir=$2
[ ! -s "$dir/version" ] || exit 0
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
dir=$(cd "$dir" && pwd)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || { echo "no $keyring: install debian-archive-keyring" >&2; exit 1; }
echo "deb [signed-by=$keyring] ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $suite main" >"$dir/apt/sources.list"
options=(-q -o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o "Dir::State::lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache"
    -o Acquire::Languages=none -o Acquire::Retries=2 -o APT::Sandbox::User=root)
timeout 120 apt-get "${options[@]}" update >"$dir/apt.log" 2>&1
package=$(apt-cache "${options[@]}" depends linux-image-amd64 2>>"$dir/apt.log" | awk '/Depends: linux-image-/ { print $2; exit }')
[ -n "$package" ] || { echo "$suite has no linux-image-amd64: see $dir/apt.log" >&2; exit 1; }
cd "$dir"
rm -f ./*.deb
timeout 300 apt-get "${options[@]}" download "$package" >>apt.log 2>&1
rm -rf unpacked modules
dpkg-deb -x ./*.deb unpacked
version=$(ls unpacked/lib/modules 2>/dev/null || ls unpacked/usr/lib/modules)
mkdir -p modules/lib/modules
mv unpacked/{usr/,}lib/modules/"$version" modules/lib/modules/ 2>/dev/null || true
mv "unpacked/boot/vmlinuz-$version" vmlinuz
rm -rf unpacked ./*.deb apt
depmod -b modules "$version"
echo "$version" >version
