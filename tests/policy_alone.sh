#!/bin/bash
# The policy library built from a copy of its folder alone, with PCRE2 and without; the program of its
# README compiled, linked and run with each.
#   policy_alone.sh BUILD_DIR
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/policy"
cp -r policy/* "$work/policy/"
cd "$work"
awk '/^<!-- embed -->/ {on = 1} on && /^```$/ {exit} on && !/^(```|<!--)/ {print}' policy/README.md >embed.c
lines=$(grep -c . embed.c)
passed=0
failed=0

build() {
    name=$1
    flags=$2
    libs=$3
    mkdir "$name"
    for source in policy/base/*.c policy/cel/*.c policy/lib/*.c policy/decide/*.c; do
        if [ "$name" = without ] && [ "$source" = policy/lib/regex_pcre2.c ]; then continue; fi
        echo "$source"
    done | xargs -P 2 -I{} sh -c 'gcc -std=gnu17 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I. '"$flags"' -c {} -o '"$name"'/$(echo {} | tr / _).o'
    ar rcs "$name/libpolicy.a" "$name"/*.o
    gcc -std=gnu17 -I. embed.c "$name/libpolicy.a" $libs -o "$name/embed"
    if [ "$("$name/embed")" = allow ]; then
        passed=$((passed + 1))
    else
        echo "$name PCRE2: the program of the README does not allow"
        failed=$((failed + 1))
    fi
}

build with "" "-lpcre2-8 -lm"
build without "-DPOLICY_WITHOUT_PCRE2" "-lm"
[ "$lines" -le 20 ] || { echo "the program of the README has $lines lines"; failed=$((failed + 1)); }
echo "$passed passed, $failed failed"
cd "$root"
[ "$failed" = 0 ]
