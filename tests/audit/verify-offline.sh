#!/bin/bash
# Verifies an audit log with standard tools alone: bash, coreutils (sha256sum, split), jq, openssl and
# zstd. It shares no code with the gateway, so that whoever distrusts `cordium-gateway audit verify`
# can read these lines instead.
#   verify-offline.sh DIR PUBLIC-KEY [SEQUENCE:HASH]
# DIR has audit.jsonl and the finished files beside it; SEQUENCE:HASH is an anchor that was noted
# elsewhere. Exit status: 0 the log is what was written, 2 it is not, 1 this cannot be told.
set -u
export LC_ALL=C
chunk_lines=5000
zeros=0000000000000000000000000000000000000000000000000000000000000000

die() {
    echo "verify-offline: $*" >&2
    exit 1
}

broken() {
    echo "NOT INTACT: $file, line $((line_in_file)) (sequence $number): $*"
    exit 2
}

[ $# -ge 2 ] || die "usage: verify-offline.sh DIR PUBLIC-KEY [SEQUENCE:HASH]"
folder=$1 public_key=$2 anchor=${3:-}
for tool in sha256sum split truncate od jq openssl zstd base64; do
    command -v $tool >/dev/null || die "$tool is not installed"
done
[ -r "$folder/audit.jsonl" ] || die "'$folder/audit.jsonl' cannot be read"
place=${TMPDIR:-/tmp}
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || place=/dev/shm # a file a line: ten times as fast in memory
work=$(mktemp -d -p "$place") || die "no temporary folder"
trap 'rm -rf "$work"' EXIT

# Each key of the file under its id: the SHA-256 of its DER form.
key=
while IFS= read -r text; do
    [ "$text" = "-----BEGIN PUBLIC KEY-----" ] && key=
    key+=$text$'\n'
    [ "$text" = "-----END PUBLIC KEY-----" ] || continue
    printf %s "$key" >"$work/key"
    id=$(openssl pkey -pubin -in "$work/key" -outform DER | sha256sum) || die "'$public_key' holds no public key"
    mv "$work/key" "$work/${id%% *}.pem"
done <"$public_key"
ls "$work"/*.pem >/dev/null 2>&1 || die "'$public_key' holds no public key in PEM"

# What is checked of a line, in words without blanks: sequence, prev, kind, and what its kind is about.
# What is no line of ours is "torn".
facts='
def word: tostring | gsub("[^!-~]"; "?") | if . == "" then "-" else . end;
(fromjson? // null) as $l |
if ($l | type) == "object" and ($l.sequence | type) == "number" and ($l.prev | type) == "string"
then [$l.sequence, $l.prev, ($l.kind // "-")] +
    if $l.kind == "AuditCheckpoint" then [$l.metadata.createdAt, $l.checkpoint.keyID, $l.checkpoint.signature]
    elif $l.kind == "AuditGap" then [$l.gap.reason, ($l.gap.lines // 1), ($l.gap.sha256 // "-")]
    elif $l.kind == "AuditErased" then [$l.sha256]
    elif $l.kind == "AuditTombstone" then [$l.tombstone.reason] +
        if $l.tombstone.reason == "RETENTION" then [$l.tombstone.lastSequence, $l.tombstone.lastHash]
        else [[$l.tombstone.lines[]? | "\(.sequence):\(.sha256)"] | join(",")] end
    else [] end
else ["torn"] end | map(word) | join(" ")'

number=0             # of the line that is looked at
before=$zeros        # hash of the line before it
first_number=0       # of the first line, when it is not 1, and its prev: a tombstone must explain them
first_prev= first_file=
torn=0               # lines without their gap record yet
signed=0             # the newest line that a good checkpoint vouches for
checkpoints=0 files=0 erased_count=0 torn_count=0 last_checkpoint= has_anchor=
retained=            # what the newest retention tombstone says: sequence:hash; and its own sequence
retained_at=0
declare -A erased    # sequence:hash of stubs, until a tombstone names them
declare -A ordered   # what erasure tombstones name, and their own sequences

check_signature() {
    local text=$work/text signature=$work/signature
    [ -f "$work/$2.pem" ] || broken "the checkpoint is of a key that was not given: $2"
    printf 'cordium-audit-checkpoint-v1\n%s\n%s\n%s\n' "$number" "$before" "$1" >"$text"
    base64 -d <<<"$3" >"$signature" 2>/dev/null
    openssl pkeyutl -verify -pubin -inkey "$work/$2.pem" -rawin -in "$text" -sigfile "$signature" \
        >/dev/null 2>&1 || broken "the checkpoint's signature is not that of its key"
    checkpoints=$((checkpoints + 1))
    signed=$number
}

# The lines right before a gap record are what a crash tore: so many, and with this hash.
check_gap() {
    [ "$1" = TORN ] || return 0
    [ "$2" = $torn ] || broken "the gap record tells of $2 torn lines, there are $torn"
    [ "$3" = - ] || [ "$(sha256sum <"$work/torn")" = "$3  -" ] || broken "the torn lines are not those of the gap record"
    torn=0
    : >"$work/torn"
}

check_tombstone() {
    if [ "$1" = RETENTION ]; then
        retained=$2:$3 retained_at=$number
        return
    fi
    local pair
    for pair in ${2//,/ }; do
        ordered[$pair]=$number
    done
}

# One line: its hash, and its facts.
check_line() {
    local hash=$1 path=$2
    shift 2
    number=$((number + 1))
    line_in_file=$((line_in_file + 1))
    if [ "$1" = torn ]; then
        torn=$((torn + 1)) torn_count=$((torn_count + 1))
        { cat "$path"; echo; } >>"$work/torn"
        before=$hash
        return
    fi
    if [ $number = 1 ] && [ "$1" != 1 ]; then
        number=$1 first_number=$1 first_prev=$2 first_file=$file before=$2
    fi
    [ "$1" = $number ] || broken "the number is $1"
    [ "$2" = "$before" ] || broken "prev is not the hash of the line before"
    [ $torn = 0 ] || [ "$3" = AuditGap ] || broken "the line before is none, and no gap record accounts for it"
    case $3 in
    AuditCheckpoint)
        check_signature "$4" "$5" "$6"
        last_checkpoint=$number:$hash
        ;;
    AuditGap) check_gap "$4" "$5" "$6" ;;
    AuditTombstone) check_tombstone "$4" "$5" "${6:-}" ;;
    AuditErased)
        hash=$4 # of what was there
        erased[$number:$hash]="$file, line $line_in_file"
        erased_count=$((erased_count + 1))
        ;;
    esac
    [ "$anchor" != "$number:$hash" ] || has_anchor=1
    before=$hash
}

# Lines are hashed by few processes: each is a file for a moment.
check_chunk() {
    local lines=$work/lines
    rm -rf "$lines"
    mkdir "$lines"
    split -l 1 -a 4 "$1" "$lines/" || die "split failed"
    if [ "$(tail -c 1 "$1" | od -An -tx1)" != " 0a" ]; then # the last line is being written, or a crash has torn it
        local last
        for last in "$lines"/*; do :; done
        if [ "$file" != audit.jsonl ]; then
            last=$(($(wc -l <"$1") + 1))
            line_in_file=$((line_in_file + last)) number=$((number + last))
            broken "the file ends within a line"
        fi
        rm "$last"
    fi
    [ -n "$(ls "$lines")" ] || return 0
    (cd "$lines" && truncate -s -1 -- * && sha256sum -- *) >"$work/hashes" || die "sha256sum failed"
    tr '\000' '\001' <"$1" | jq -rR "$facts" >"$work/facts" || die "jq failed"
    local hash path words
    while read -r hash path && read -r words <&3; do
        # shellcheck disable=SC2086
        check_line "$hash" "$lines/$path" $words
    done <"$work/hashes" 3<"$work/facts"
}

check_file() {
    local chunk reader=cat
    file=${1##*/} line_in_file=0 files=$((files + 1))
    case $1 in *.zst) reader="zstd -dcq" ;; esac
    rm -rf "$work/chunks"
    mkdir "$work/chunks"
    $reader "$1" | split -l $chunk_lines -a 6 - "$work/chunks/"
    [ "${PIPESTATUS[*]}" = "0 0" ] || broken "the file is damaged"
    for chunk in "$work/chunks"/*; do
        [ ! -s "$chunk" ] || check_chunk "$chunk"
        rm -f "$chunk"
    done
}

: >"$work/torn"
for path in "$folder"/audit-*.jsonl "$folder"/audit-*.jsonl.zst; do
    # Of a file that is there twice the plain one counts.
    [ ! -e "$path" ] || [ -e "${path%.zst}" ] && [ "$path" != "${path%.zst}" ] || echo "$path"
done | sort >"$work/names"
while IFS= read -r path; do
    [ ! -e "$path" ] || check_file "$path"
done <"$work/names"
check_file "$folder/audit.jsonl"

[ $number -gt 0 ] || die "there is no line of a log in '$folder'"
[ $torn = 0 ] || broken "the log ends with a line that is none, and no gap record accounts for it"
# A tombstone counts when a checkpoint vouches for it: whoever has no key cannot order anything.
for pair in "${!erased[@]}"; do
    [ "${ordered[$pair]:-$((signed + 1))}" -le $signed ] && continue
    file=${erased[$pair]%%,*} line_in_file=${erased[$pair]##* } number=${pair%%:*}
    broken "the line was erased without a signed tombstone"
done
if [ "$first_number" != 0 ] && { [ "$retained" != "$((first_number - 1)):$first_prev" ] || [ "$retained_at" -gt $signed ]; }; then
    file=$first_file line_in_file=1 number=$first_number
    broken "lines before this one are missing, and no signed tombstone says so"
fi
if [ -n "$anchor" ] && [ -z "$has_anchor" ]; then
    file="the log" line_in_file=0 number=${anchor%%:*}
    broken "it does not have the anchor $anchor"
fi
echo intact
echo "$((first_number > 0 ? number - first_number + 1 : number)) lines in $files files, up to sequence $number"
echo "$checkpoints checkpoints; $((number - signed)) lines behind the last one are not signed yet"
[ -z "$last_checkpoint" ] || echo "anchor $last_checkpoint"
[ "$first_number" = 0 ] || echo "$((first_number - 1)) lines were deleted with their files, by tombstones"
[ $erased_count = 0 ] || echo "$erased_count lines were erased, each by a tombstone"
[ $torn_count = 0 ] || echo "$torn_count lines were torn by crashes, each is accounted for"
