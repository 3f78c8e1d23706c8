#!/bin/bash
# The policy library's exports against its public headers: what a header declares is there, and in the
# library for embedding nothing else is visible.
#   symbols.sh BUILD_DIR ARCHIVE
set -eu
out=$1
archive=$2
cd "$(dirname "$0")/.."
headers='policy/policy.h policy/decide/policy_set.h policy/decide/decide.h policy/decide/lint.h policy/decide/shape.h'
work=$out/embed
mkdir -p "$work"
{
    for h in $headers policy/base/*.h; do echo "#include \"$h\""; done
} >"$work/headers.c"
gcc -std=gnu17 -D_GNU_SOURCE -I. -fsyntax-only -aux-info "$work/prototypes" "$work/headers.c"
# Prototypes of our own headers; static inline ones have no symbol.
grep -E '^/\* (\./)?policy/' "$work/prototypes" | grep -v ' static ' |
    sed -E 's/^.*\*\/ extern [^(]*[ *]([a-z_0-9]+) \(.*$/\1/' | sort -u >"$work/declared"
rm -f "$work/all.o" "$work/libpolicy.a"
ld -r --whole-archive "$archive" -o "$work/all.o"
objcopy --keep-global-symbols="$work/declared" "$work/all.o" "$work/policy.o"
ar rcs "$work/libpolicy.a" "$work/policy.o"
nm -g --defined-only "$work/policy.o" | awk 'NF == 3 {print $3}' | sort -u >"$work/exported"
hidden=$(nm -g --defined-only "$work/all.o" | awk 'NF == 3' | wc -l)
status=0
missing=$(comm -23 "$work/declared" "$work/exported")
[ -z "$missing" ] || { echo "declared, but not there:" $missing; status=1; }
extra=$(comm -13 "$work/declared" "$work/exported")
[ -z "$extra" ] || { echo "exported, but not declared:" $extra; status=1; }
# Whoever links it must not need more than libc, libm and PCRE2.
needed=$(nm -u "$work/policy.o" | awk '{print $2}' | grep -E '^(policy|arena|buf|str|json|error|lint|regex|cel)_' || true)
[ -z "$needed" ] || { echo "undefined:" $needed; status=1; }
# A program of ours that uses public headers only, linked with what is visible.
gcc -std=gnu17 -D_GNU_SOURCE -I. policy/tools/celc.c "$work/libpolicy.a" -lpcre2-8 -lm -o "$work/celc"
[ "$("$work/celc" eval '[1, 2].map(x, x * 2)')" = '[2, 4]' ] || { echo "celc does not work with it"; status=1; }
echo "symbols: $(wc -l <"$work/exported") exported, all declared in the public headers; $((hidden - $(wc -l <"$work/exported"))) names are local"
exit $status
