#!/bin/bash
# Runs every check, one after the other, and ends with one line "N passed, N failed".
#   check.sh NAME=COMMAND...
# A step counts what its output counts: lines of libcheck ("100%: Checks: 8, Failures: 0, Errors: 0") and
# lines "N passed, N failed[, N skipped]". A step that counts nothing is one check by its exit code.
set -u
logs=build/check
mkdir -p "$logs"
passed=0
failed=0
skipped=0

count() {
    awk '
        /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
            gsub(",", ""); f += $5 + $7; p += $3 - $5 - $7; seen = 1 }
        /^([A-Za-z-]+: )?[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {
            sub(/^[A-Za-z-]+: /, ""); gsub(",", ""); p += $1; f += $3; s += $5; seen = 1 }
        END { print p + 0, f + 0, s + 0, seen + 0 }' "$1"
}

for step in "$@"; do
    name=${step%%=*}
    command=${step#*=}
    log=$logs/${name//[^A-Za-z0-9_.-]/_}.log
    began=$(date +%s)
    bash -c "$command" >"$log" 2>&1 </dev/null
    code=$?
    read -r p f s seen < <(count "$log")
    [ "$seen" = 1 ] || { [ $code = 0 ] && p=1 || f=1; }
    [ $code = 0 ] || [ "$f" -gt 0 ] || f=1
    if [ "${MUST_WORK:-0}" = 1 ] && [ "$s" -gt 0 ]; then
        f=$((f + s))
        s=0
    fi
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    printf '%-28s %5d passed, %d failed, %d skipped  (%d s)\n' "$name" "$p" "$f" "$s" $(($(date +%s) - began))
    if [ "$f" -gt 0 ]; then
        echo "---- the end of $log"
        tail -n 40 "$log"
        echo "----"
    fi
done
if [ $skipped -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
