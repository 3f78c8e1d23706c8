#!/bin/sh
# The manual pages and the code, compared: every command, option, setting and variable of the code has
# its entry (.It) in a page, and no entry is about something that the code does not have.
# Prints what is missing and ends "N passed, N failed".
cd "$(dirname "$0")/.." || exit 1
LC_ALL=C
export LC_ALL
passed=0
failed=0
cli=gateway/cli/cordium.1
gateway=gateway/cordium-gateway.8
executor=executor/cordium-executor.8

pass() {
    passed=$((passed + 1))
}

fail() {
    echo "man: $1" >&2
    failed=$((failed + 1))
}

# compare PAGE WHAT CODE'S-NAMES PAGE'S-NAMES: lists, a name a line.
compare() {
    [ -n "$3" ] || fail "$1: the code's $2 names are not found, see tests/man.sh"
    for name in $(printf '%s\n' "$3" | tr ' ' '+' | sort -u); do
        if printf '%s\n' "$4" | tr ' ' '+' | grep -qxF -e "$name"; then
            pass
        else
            fail "$1 lacks the $2 '$(echo "$name" | tr '+' ' ')'"
        fi
    done
    for name in $(printf '%s\n' "$4" | tr ' ' '+' | sort -u); do
        printf '%s\n' "$3" | tr ' ' '+' | grep -qxF -e "$name" ||
            fail "$1 has the $2 '$(echo "$name" | tr '+' ' ')', which is not in the code"
    done
}

# entries PAGE MACRO: what stands behind MACRO at the beginning of an entry, up to the next macro.
entries() {
    sed -nE "s/^\.It $2 //p" "$1" | sed -E 's/ [A-Z].*//; s/ *$//'
}

# The tables of commands are their files' last things: `const struct command NAME[] = {`.
commands=$(for f in gateway/cli/*_commands.c; do
    sed -nE '/^const struct command .*\[\] = \{/,$ s/^    \{"([a-z -]+)",.*/\1/p' "$f"
done)
compare $cli command "$commands" "$(entries $cli Cm)"

# Options of all commands; --help, --usage are those of argp.
options=$(cat gateway/cli/*_commands.c gateway/cli/arguments.[ch] |
    grep -oE "(\{|^ *)\"[a-z-]+\", (OPT_[A-Z_]+|'.')," | sed -E 's/.*"([a-z-]+)".*/\1/'
    echo help
    echo usage)
documented=$(grep '^\.It ' $cli | grep -oE '(Fl|,) -[a-z][a-z-]+' | sed -E 's/^(Fl|,) -//')
compare $cli option "$options" "$documented"

variables=$(grep -hoE 'getenv\("[A-Z_]+"\)' gateway/cli/*.c | sed -E 's/.*"(.*)".*/\1/')
compare $cli variable "$variables" "$(grep '^\.It Ev' $cli | grep -oE '[A-Z][A-Z_]{3,}')"

keys=$(sed -nE '/^static int apply_member/,/^}/p' gateway/cli/settings.c |
    grep -oE '(\{|key, )"[A-Za-z]+"' | sed -E 's/.*"(.*)"/\1/')
compare $cli 'line of the configuration' "$keys" "$(entries $cli Va)"

# {"listen", "port", SETTING_...} is listen.port; {NULL, "domain", ...} is domain.
settings=$(sed -nE 's/^ *\{(NULL|"[A-Za-z]+"), "([A-Za-z]+)", SETTING_.*/\1.\2/p' gateway/config.c |
    sed -E 's/^NULL\.//; s/"//g')
verbs=$(sed -nE 's/.*\{"([a-z-]+)", run_[a-z_]+\}.*/\1/p' gateway/main.c)
audit_verbs=$(grep -oE '\{"[a-z-]+", run_[a-z_]+\}' gateway/audit_command.c | sed -E 's/.*"(.*)".*/audit \1/')
compare $gateway 'setting or command' "$settings
$verbs
$audit_verbs" "$(entries $gateway Cm)"

settings=$(sed -nE 's/^ *(KEY\(|\{")([a-z_]+)"?, KIND_.*/\2/p' executor/config.c)
compare $executor setting "$settings" "$(entries $executor Cm)"

# The daemons' options.
for pair in "gateway/main.c gateway/audit_command.c $gateway" "executor/main.c $executor"; do
    options=$(grep -oE '\{"[a-z-]+", (no|required)_argument' ${pair% *} | sed -E 's/.*"(.*)".*/\1/')
    documented=$(grep '^\.It Fl' "${pair##* }" | grep -oE 'Fl -[a-z-]+' | sed 's/^Fl -//')
    compare "${pair##* }" option "$options" "$documented"
done

for page in $cli $gateway $executor; do
    for section in NAME SYNOPSIS DESCRIPTION FILES 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
        if grep -qx "\.Sh $section" $page; then
            pass
        else
            fail "$page has no section $section"
        fi
    done
    # Formatters warn of macros that they do not know and of lists that do not end.
    if command -v groff >/dev/null; then
        out=$(groff -mandoc -Tascii -ww -z $page 2>&1) && [ -z "$out" ] && pass || fail "$page: $out"
    fi
    if command -v mandoc >/dev/null; then
        out=$(mandoc -Tlint -Wwarning $page 2>&1) && pass || fail "$page: $out"
    fi
done

echo "$passed passed, $failed failed"
[ $failed = 0 ]
