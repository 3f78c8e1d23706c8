#!/bin/sh
# The executor's trusted code, in lines without blanks and comments, and a budget for each part of it.
# Prints each file and the sums; fails when a part is over its budget.
#
# Counted is what runs with rights on the host or decides what it gets. Not counted: the client, which
# the gateway links; the builder of images, which runs inside a sandbox; tables (.def).
#
# The budgets follow from who reads what. An afternoon's reading, with care, is 2,000 lines of short
# functions. The two parts that hostile bytes and hostile files meet first fit into one each: what a
# message goes through before anything is done, and what stands as root inside an image. The rest of the
# daemon works on what these have judged; a reviewer takes it file by file, an afternoon for each of: life
# cycles, cgroups and namespaces, storages, network, start and configuration. What attacks a sandbox at
# start or tells of a host is apart: a fault there lets a broken host serve, and opens nothing by itself.
#
# A budget is raised only in the commit that needs it, which says what it buys.
cd "$(dirname "$0")/.." || exit 1
MESSAGES_MAX=1600
INIT_MAX=2000
DAEMON_MAX=9500
CHECKS_MAX=2000

# gcc -fpreprocessed takes comments away and expands nothing.
lines() {
    gcc -fpreprocessed -dD -E -P "$1" 2>/dev/null | grep -c '[^[:space:]]'
}

status=0
total=0
part() { # NAME BUDGET, and its files on standard input
    sum=0
    echo "$1"
    for file in $(cat); do
        n=$(lines "$file")
        [ "$n" -gt 0 ] || { echo "size: $file cannot be counted" >&2; status=1; }
        sum=$((sum + n))
        printf '%8d  %s\n' "$n" "$file"
    done
    total=$((total + sum))
    printf '%8d  of at most %d\n\n' "$sum" "$2"
    [ "$sum" -le "$2" ] || {
        echo "size: '$1' has $sum lines, over its budget of $2: make it smaller, or see tests/size.sh" >&2
        status=1
    }
}

messages='executor/(ipc/|dispatch\.c|sandbox_spec\.)'
checks='executor/(self_test|self_check|doctor|init/(attack|self_test))'
init='executor/init/'
all=$(mktemp) || exit 1
part_of=$(mktemp) || exit 1
trap 'rm -f "$all" "$part_of"' EXIT
find executor/*.[ch] executor/ipc executor/steps executor/proc executor/init -name '*.[ch]' | LC_ALL=C sort >"$all"

grep -E "^$messages" "$all" >"$part_of"
part "what a message meets first (daemon, root)" $MESSAGES_MAX <"$part_of"
grep -E "^$init" "$all" | grep -vE "^$checks" >"$part_of"
part "launcher and init (root inside an image, then pid 1 of a sandbox)" $INIT_MAX <"$part_of"
grep -vE "^($messages|$checks|$init)" "$all" >"$part_of"
part "the rest of the daemon (root)" $DAEMON_MAX <"$part_of"
grep -E "^$checks" "$all" >"$part_of"
part "self-test and report of the host (root, before it serves)" $CHECKS_MAX <"$part_of"
printf '%8d  lines in all\n' "$total"
exit $status
