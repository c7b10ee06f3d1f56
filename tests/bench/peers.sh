#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# peers.sh - two empty stages in other programs, where pkg-config finds them.
#
# What bench_stream measures for ours. Prints one line for each; one that is missing
# is said to be, and nothing fails.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-cc}
CXX=${CXX:-c++}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
scratch=$(mktemp -d)
STARPU_HOME=$scratch # for what it measures of the machine
export STARPU_HOME
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# peer WHAT PKG-CONFIG-NAME DEBIAN-PACKAGE COMPILER SOURCE
peer() {
    if ! $PKG_CONFIG --exists "$2"; then
        echo "$1: not installed, skipped (Debian: $3)"
        return
    fi
    # shellcheck disable=SC2046,SC2086 # words
    if $4 -O2 $($PKG_CONFIG --cflags "$2") -o "$scratch/peer" "$here/$5" \
        $($PKG_CONFIG --libs "$2") -pthread >"$scratch/log" 2>&1; then
        "$scratch/peer" 2>"$scratch/log" || echo "$1: its program failed"
    else
        echo "$1: its program does not compile here, skipped"
    fi
}

peer oneTBB tbb libtbb-dev "$CXX -std=c++17" peer_tbb.cc
peer StarPU starpu-1.3 libstarpu-dev "$CC -std=gnu11" peer_starpu.c
