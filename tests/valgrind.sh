#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# valgrind.sh - the runtime's tests under Helgrind, in a build whose atomics it knows;
# `make check-valgrind` runs it in the build folder. Takes some minutes.
#
# Left out: cases that hang on purpose, whose workers outlive their test, and the longest
# of test_pipeline and test_stream.
set -eu
command -v valgrind >/dev/null || {
    echo 'valgrind.sh: Valgrind is not there (Debian: valgrind)' >&2
    exit 1
}
source=$(cd "${srcdir:-.}" && pwd)
rm -rf valgrind
mkdir valgrind
cd valgrind
"$source/configure" --without-mpi --disable-static --enable-debug \
    CPPFLAGS=-DPST_VALGRIND CFLAGS='-O1 -g' >configure.log
make check TESTS= >make.log

failed=0
# helgrind TEST [CASE]: each of Check's tests is a process, and ends in 9 for a race.
helgrind() {
    printf '%s%s: ' "$1" "${2:+, $2}"
    # Check reads an empty name as one of a case that there is not.
    if env ${2:+CK_RUN_CASE="$2"} srcdir="$source" CK_TIMEOUT_MULTIPLIER=20 \
        valgrind -q --tool=helgrind --error-exitcode=9 "tests/stages/$1" \
        >helgrind.log 2>&1; then
        grep '^100%' helgrind.log
    else
        failed=1
        echo failed
        cat helgrind.log
    fi
}
helgrind test_ring
helgrind test_channel
helgrind test_thread
helgrind test_team
helgrind test_messages
helgrind test_run failing
helgrind test_run cancelled
helgrind test_run ends
helgrind test_pipeline 'two pipelines'
helgrind test_pipeline places
helgrind test_stream pressure
helgrind test_stream ends
helgrind test_stream memory
exit $failed
