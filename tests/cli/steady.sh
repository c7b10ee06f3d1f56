#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# steady.sh - a run makes as few system calls for 4,000 microbatches as for 4.
#
# The caller sleeps while its worker runs and looks about ten times a second, so its
# own waits are not counted; nor is that which the system restarts.
steady=$(cd "${top_builddir:-.}" && pwd)/tests/stages/steady
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit

# calls RANKS MICROBATCHES: the names of all system calls during the run.
calls() {
    ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=all \
        "$steady" "$1" "$2" 2>/dev/null || echo failed
    sed -n '/write(2, "begin/,/write(2, "end/p' trace | sed '1d;$d' |
        sed 's/^[0-9]* *//; s/(.*//' | grep -v '^<\.\.\. \|^--- \|^restart_syscall' |
        sort | uniq -c | awk '{ print $2, $1 }'
}

futexes() { echo "$1" | sed -n 's/^futex //p'; }

if strace -f -o /dev/null true 2>/dev/null; then
    for ranks in 1 2; do
        few=$(calls $ranks 4)
        many=$(calls $ranks 4000)
        same "$ranks ranks: no call but futex" futex \
            "$(echo "$many" | sed 's/ .*//' | tr '\n' ' ' | sed 's/ $//')"
        # Some to start, to begin with the first message and to end, and the caller's
        # naps of 0.1 s.
        same "$ranks ranks: as few of them" yes \
            "$([ "$(futexes "$many")" -le $((40 * ranks)) ] && echo yes)"
        same "$ranks ranks: and some at all" yes \
            "$([ "$(futexes "$few")" -ge 1 ] && echo yes)"
    done
else
    skip 'counting system calls, since strace does not work'
fi
finish
