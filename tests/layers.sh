#!/bin/sh
# The arrows of permission between the components, read from #include lines, and the rule that
# each third-party library is named in one file. Prints each breach and fails.
cd "$(dirname "$0")/.." || exit 1
status=0

breach() {
    echo "layers: $1" >&2
    status=1
}

# allowed DIR PATTERN: files under DIR may include our headers only by PATTERN.
allowed() {
    out=$(grep -rnE '^#include "' --include='*.[ch]' "$1" | grep -vE "#include \"($2)") || return 0
    breach "$1 may not reach:
$out"
}

allowed policy/base 'policy/base/'
allowed policy/cel 'policy/(base|cel|lib|policy\.h)'
allowed policy/lib 'policy/(base|cel|lib|policy\.h)'
allowed policy/decide 'policy/(base|cel|lib|decide|policy\.h)'
allowed executor '(policy/base|executor)/'
allowed gateway '(policy/(base|decide|policy\.h)|executor/(client|proc)/|gateway/|api/|google/protobuf/)'

# one LIBRARY HEADER-PATTERN DIRS: at most one file in DIRS names it.
one() {
    library=$1
    pattern=$2
    shift 2
    files=$(grep -rlE "^#include <($pattern)" --include='*.[ch]' "$@" 2>/dev/null | sort)
    [ "$(printf '%s\n' "$files" | grep -c .)" -le 1 ] || breach "$library is named in more than one file of $*:
$files"
}

one PCRE2 'pcre2' policy gateway executor
one nghttp2 'nghttp2/' gateway
one SQLite 'sqlite3' gateway
one libyaml 'yaml\.h' gateway
one libcurl 'curl/' gateway/cli
# shellcheck disable=SC2046
one libcurl 'curl/' $(ls -d gateway/*.c gateway/*/ | grep -v '^gateway/cli/')
one libmnl 'libmnl/' executor
one libnftables 'nftables/' executor
one zlib 'zlib\.h' gateway
one zstd 'zstd' policy gateway executor

# Functions that cannot be told how much room they have, or that hide a failure.
banned='strcpy|strcat|strncat|sprintf|vsprintf|atoi|atol|atoll|gets|alloca|strtok'
out=$(grep -rnE "(^|[^A-Za-z0-9_])($banned)\(" --include='*.[ch]' policy executor gateway | grep -vE '//|/\*') &&
    breach "a banned function is called:
$out"

[ $status -ne 0 ] || echo "layers: ok"
exit $status
