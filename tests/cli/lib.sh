# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
# lib.sh - what the scripts beside it share; they read it with "." first of all.
#
# The programs of $top_builddir are then in PATH, and the present folder is an empty
# one of its own that goes away at the end. Failures are printed and counted; a script
# ends in `finish`.
set -u
LC_ALL=C
export LC_ALL
unset NO_COLOR COLUMNS PENSTOCK_COLOR PENSTOCK_BIND PENSTOCK_RESTARTED || :

PATH=$(cd "${top_builddir:-.}" && pwd):$PATH
cli_scratch=$(mktemp -d) || exit 1
trap 'cd / && rm -rf "$cli_scratch"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$cli_scratch/here"

# fontconfig, which cairo loads, keeps memory that a build with sanitizers would count.
echo leak:libfontconfig >"$cli_scratch/leaks"
LSAN_OPTIONS=suppressions=$cli_scratch/leaks:print_suppressions=0${LSAN_OPTIONS+:$LSAN_OPTIONS}
export LSAN_OPTIONS

cd "$cli_scratch/here" || exit 1

cli_name=$(basename "$0" .sh)
cli_checks=0
cli_failures=0

# fail WHAT [EXPECTED FOUND]: print it and go on.
fail() {
    cli_failures=$((cli_failures + 1))
    printf '%s: %s\n' "$cli_name" "$1"
    [ $# -lt 3 ] || printf 'expected:\n%s\nfound:\n%s\n' "$2" "$3" | sed 's/^/    /'
}

# same WHAT EXPECTED FOUND: two texts are the same.
same() {
    cli_checks=$((cli_checks + 1))
    [ "$2" = "$3" ] || fail "$1" "$2" "$3"
}

# differ WHAT ONE OTHER: and not the same.
differ() {
    cli_checks=$((cli_checks + 1))
    [ "$2" != "$3" ] || fail "$1" "something else than $2" "$3"
}

# true_that WHAT COMMAND...: the command succeeds.
true_that() {
    cli_checks=$((cli_checks + 1))
    cli_what=$1
    shift
    "$@" >/dev/null 2>&1 || fail "$cli_what" "success of: $*" 'failure'
}

# matches EXPECTED FILE: the file is what the first argument says, see expect.
matches() {
    case $1 in
    -) return 0 ;;
    '') [ ! -s "$2" ] ;;
    '~'*)
        cli_text=$(cat "$2")
        # shellcheck disable=SC2254 # a pattern is what it is
        case $cli_text in
        ${1#?}) return 0 ;;
        esac
        return 1
        ;;
    *) printf '%s\n' "$1" | cmp -s - "$2" ;;
    esac
}

# expect STATUS OUT ERR COMMAND...: the exit status, standard output and standard error
# of a command. OUT and ERR: the exact text without its last newline, "~" and a pattern
# of the shell, or "-" for anything. What it printed stays in ../out and ../err.
expect() {
    cli_status=$1 cli_out=$2 cli_err=$3
    shift 3
    cli_checks=$((cli_checks + 1))
    "$@" >../out 2>../err </dev/null && cli_found=0 || cli_found=$?
    [ "$cli_found" -eq "$cli_status" ] && matches "$cli_out" ../out &&
        matches "$cli_err" ../err && return
    fail "$*"
    {
        [ "$cli_found" -eq "$cli_status" ] ||
            printf 'status: expected %s, found %s\n' "$cli_status" "$cli_found"
        if ! matches "$cli_out" ../out; then
            printf 'standard output, expected:\n%s\nfound:\n' "$cli_out"
            cat ../out
        fi
        if ! matches "$cli_err" ../err || [ "$cli_found" -ne "$cli_status" ]; then
            printf 'standard error, expected:\n%s\nfound:\n' "$cli_err"
            cat ../err
        fi
    } | sed 's/^/    /'
}

# holds WHAT TEXT: what the last command printed has this line.
holds() {
    cli_checks=$((cli_checks + 1))
    grep -Fqx -e "$2" ../out || fail "$1" "a line: $2" "$(cat ../out)"
}

# only WHAT NAMES: nothing but these is in the present folder.
only() {
    same "$1: what is in the folder" "$2" "$(find . ! -name . -prune | sed 's|^\./||' |
        sort | tr '\n' ' ' | sed 's/ $//')"
}

# skip WHY: say that something could not be tried here.
skip() {
    printf '%s: not tried: %s\n' "$cli_name" "$1"
}

# ---- for the scripts that train ---------------------------------------------

# make_text LINES: so much of a text, always the same.
make_text() {
    awk -v lines="$1" 'BEGIN {
        for (i = 0; i < lines; i++)
            printf "In line %d it is said that %d is more than %d.\n", i, i * i, i
    }'
}

# A tiny model, so that a run is a matter of a tenth of a second.
cli_tiny='--data text --layers 4 --heads 2 --width 16 --context 8 --batch 8
    --microbatches 4 --steps 20 --warmup 2 --quiet'

train() {
    # shellcheck disable=SC2086 # one word an argument
    pipetrain $cli_tiny "$@"
}

# The same in the background; $! is then its process. It prints to ../out and ../err.
start_train() {
    # shellcheck disable=SC2086 # one word an argument
    pipetrain $cli_tiny "$@" >../out 2>../err </dev/null &
}

# train_on_cpu CPU ARGUMENT...
train_on_cpu() {
    cli_cpu=$1
    shift
    # shellcheck disable=SC2086 # one word an argument
    taskset -c "$cli_cpu" pipetrain $cli_tiny "$@"
}

# sums FOLDER: a checksum of every file in it.
sums() {
    find "$1" -type f -exec sha256sum {} + | sort
}

finish() {
    printf '%s: %d checks, %d failed\n' "$cli_name" "$cli_checks" "$cli_failures"
    [ "$cli_failures" -eq 0 ]
    exit
}
