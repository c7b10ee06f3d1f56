#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# install.sh - what a user of the installed libraries meets.
#
#   install.sh               install into an empty DESTDIR, look there, uninstall
#   install.sh --installed   look at what is installed already ($DESTDIR is kept to)
#
# Looking: programs build with nothing but pkg-config, against the shared and the
# static libraries, and run.
set -eu

top=$(cd "${srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
CC=${CC:-cc}
TEST_FLAGS=${TEST_FLAGS-}
# An outer make's job server is none of ours.
unset MAKEFLAGS MFLAGS MAKELEVEL || :

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

die() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

# run LOG COMMAND...: quietly unless it fails.
run() {
    log=$scratch/$1
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        cat "$log" >&2
        die "this failed: $*"
    }
}

# The folders that configure was told, and where they are under DESTDIR.
libdir=$(pkg-config --variable=libdir "$build/penstock.pc")
dest=${DESTDIR-}
if [ "${1-}" != --installed ]; then
    dest=$scratch/dest
    run install.log make -C "$build" install "DESTDIR=$dest"
fi
lib=$dest$libdir
[ -e "$lib/pkgconfig/penstock.pc" ] || die "$lib/pkgconfig/penstock.pc is not there"

# relocate FOLDER LIBDIR: the .pc files as if DESTDIR were the root.
relocate() {
    mkdir -p "$1"
    for pc in penstock penstock-model; do
        sed -e "s|^\([a-z_]*=\)/|\1$dest/|" -e "s|^libdir=.*|libdir=$2|" \
            "$lib/pkgconfig/$pc.pc" >"$1/$pc.pc"
    done
}

cat >"$scratch/model.c" <<'END'
#include <stdio.h>

#include <penstock/blas.h>
#include <penstock/gpt.h>
#include <penstock/trainer.h>

int main(void)
{
    pst_gpt_config config = {.layers = 2};
    pst_error err = PST_ERROR_INIT;
    if (pst_gpt_config_complete(&config, &err) != PST_OK)
        return 1;
    pst_trainer_destroy(NULL);
    pst_blas_info info;
    pst_blas_describe(&info);
    return printf("%s\n", info.kernels) > 0 ? 0 : 1;
}
END

# gzip_reads COMPRESS: what it writes with and without threads is the same, and gzip's.
gzip_reads() {
    : >"$scratch/empty"
    for plain in "$scratch/empty" "$1"; do
        run compress "$1" "$plain" "$scratch/stream.gz"
        run compress "$1" --serial "$plain" "$scratch/serial.gz"
        cmp "$scratch/stream.gz" "$scratch/serial.gz" || die "$1 wrote two things"
        gzip -dc "$scratch/stream.gz" | cmp - "$plain" || die "gzip read another thing"
    done
}

# programs NAME PKG-CONFIG: build and run the examples and one user of the models.
programs() {
    run "$1-copy" cp -R "$top/examples" "$scratch/$1"
    chmod -R u+w "$scratch/$1"
    run "$1-make" make -C "$scratch/$1" "CC=$CC" "CFLAGS=-O1 $TEST_FLAGS" "PKG_CONFIG=$2"
    # shellcheck disable=SC2046,SC2086 # words
    run "$1-model" $CC -std=c11 $TEST_FLAGS $($2 --cflags penstock-model) \
        -o "$scratch/$1/model" "$scratch/model.c" $($2 --libs penstock-model)
    for source in "$scratch/$1"/*.c "$scratch/model.c"; do
        program=$scratch/$1/$(basename "$source" .c)
        # One example needs zlib, and is not built without.
        [ -e "$program" ] || [ "$program" != "$scratch/$1/compress" ] || continue
        run "$1-run" "$program"
        # What the linker took is what was meant.
        if [ "$1" = static ] && ldd "$program" | grep -q libpenstock; then
            die "$program is linked with the shared library"
        fi
    done
    [ ! -e "$scratch/$1/compress" ] || gzip_reads "$scratch/$1/compress"
}

if [ -e "$lib/libpenstock.so" ]; then
    relocate "$scratch/shared-pc" "$lib"
    PKG_CONFIG_PATH=$scratch/shared-pc${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} \
        LD_LIBRARY_PATH=$lib programs shared pkg-config
fi
if [ -e "$lib/libpenstock.a" ]; then
    # A folder without the shared ones, so that -lpenstock can only mean this.
    mkdir "$scratch/static-lib"
    cp "$lib"/libpenstock*.a "$scratch/static-lib"
    relocate "$scratch/static-pc" "$scratch/static-lib"
    PKG_CONFIG_PATH=$scratch/static-pc${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} \
        programs static 'pkg-config --static'
fi

[ "${1-}" = --installed ] && exit 0
run uninstall.log make -C "$build" uninstall "DESTDIR=$dest"
left=$(find "$dest" ! -type d)
[ -z "$left" ] || die "uninstall left $left"
