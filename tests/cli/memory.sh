#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# memory.sh - both programs with each of their allocations failing in turn: they do
# without, or they end in one line that says so. Nothing is leaked and no file is torn.
#
# Takes some only of most programs' allocations; MEMORY_EVERY=1 takes all.
build=$(cd "${top_builddir:-.}" && pwd)
models=$(cd "${srcdir:-.}" && pwd)/tests/data/models
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
module=$build/tests/cli/.libs/fail_malloc.so

case ${TEST_FLAGS:-} in
*sanitize*)
    skip 'failing allocations, since a sanitizer has an allocator of its own'
    exit 77
    ;;
esac
if [ ! -e "$module" ] || [ ! -x "$build/.libs/pipetrain" ]; then
    skip 'failing allocations, since there are no shared libraries'
    exit 77
fi

# hwloc and cairo do not survive all failures of their own; what they do for a caller of
# one of these functions they must.
through='hwloc_bitmap_ cairo_create cairo_svg_surface_create'

# run_each EVERY TOOL ARGUMENT...: into ../each, see fail_malloc.c. LD_PRELOAD stands
# last, for it to begin with the tool.
# shellcheck disable=SC2317 # true_that calls it
run_each() {
    (
        rm -rf ../each
        mkdir ../each
        every=$1 tool=$build/.libs/$2
        folder=$(cd ../each && pwd)
        shift 2
        FAIL_MALLOC_FOLDER=$folder FAIL_MALLOC_EVERY=$every FAIL_MALLOC_THROUGH=$through \
            FAIL_MALLOC_IN='libpenstock libjansson' OPENBLAS_NUM_THREADS=1 \
            LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH} \
            LD_PRELOAD=$module exec "$tool" "$@" </dev/null
    )
}

# names_memory FILE: it is one line, and gives memory as the reason.
names_memory() {
    { read -r line && ! read -r _; } <"$1" || return 1
    case $line in
    *memory* | *'could not be started: Resource temporarily unavailable'*) ;;
    *) return 1 ;;
    esac
}

# same_files NUMBER: what the run has made is what the one without a failure made; of
# checkpoints it may have kept an older one that it could not remove.
same_files() {
    (cd "../each/$1" && find . -type f ! -name err ! -name status ! -path './run/*') \
        >../files
    while read -r file; do
        cmp "../each/0/$file" "../each/$1/$file" || return 1
    done <../files
    for checkpoint in "../each/0/run"/*; do
        [ ! -e "$checkpoint" ] || [ -e "../each/$1/run/${checkpoint##*/}" ] || return 1
    done
    whole_checkpoints "../each/$1/run"
}

# whole_checkpoints FOLDER: of what it has each is one of a run that nothing befell.
whole_checkpoints() {
    for checkpoint in "$1"/*; do
        [ ! -e "$checkpoint" ] || diff -r "$checkpoint" "whole/${checkpoint##*/}" || return 1
    done
}

# left_well FOLDER KEPT: what a run that failed may leave there: no files but in "run",
# which still has KEPT, if that is given.
left_well() {
    well_folder=$1 well_kept=$2
    set -- "$well_folder"/*
    case $* in
    "$well_folder/err $well_folder/out $well_folder/status") [ -z "$well_kept" ] ;;
    "$well_folder/err $well_folder/out $well_folder/run $well_folder/status")
        [ -z "$well_kept" ] || [ -e "$well_folder/run/$well_kept" ] &&
            whole_checkpoints "$well_folder/run"
        ;;
    *) false ;;
    esac
}

# judge NUMBER KEPT: the run in whose course that allocation failed.
judge() {
    read -r status _ live <"../each/$1/status"
    case $status in
    0) same_files "$1" && ! grep -v ': warning: .*memory' "../each/$1/err" ;;
    1) names_memory "../each/$1/err" && left_well "../each/$1" "$2" ;;
    *) false ;;
    esac >../verdict 2>&1 && [ "$live" -eq 0 ]
}

# each EVERY KEPT TOOL ARGUMENT...: all of it.
each() {
    every=$1 kept=$2
    shift 2
    true_that "allocations of $*" run_each "$every" "$@"
    read -r status calls live <../each/0/status
    same "$*: without a failure" '0 0' "$status $live"
    count=$calls
    for number in $(cd ../each && echo *); do
        cli_checks=$((cli_checks + 1))
        judge "$number" "$kept" || fail "$* without allocation $number" \
            'success, or one line' \
            "status, allocations, blocks left: $(cat "../each/$number/status")
$(cat ../verdict "../each/$number/err")
$(cd ../each && find "$number" -type f)"
    done
    printf '%s: every %d. of %d allocations: %s\n' "$cli_name" "$every" "$count" "$*"
}

# ---- pipesim ----------------------------------------------------------------

here=$(pwd)
printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >list.csv
machine='pack:2 core:2 pu:2'

each 1 '' pipesim list
each 1 '' pipesim stats 1f1b -p 4 -m 8
each "${MEMORY_EVERY:-199}" '' pipesim stats v-min -p 2 -m 2 --forward 1,2 --memory-limit 1.5p
each "${MEMORY_EVERY:-2}" '' pipesim stats pipedream -p 2 -m 4 --json
each 1 '' pipesim check "$here/list.csv"
each "${MEMORY_EVERY:-2}" '' pipesim check "$here/list.csv" --json
each 1 '' pipesim place -p 2 --topology "$machine"
each "${MEMORY_EVERY:-2}" '' pipesim place -p 2 --topology "$machine" --bind 0-1:2-3
each "${MEMORY_EVERY:-2}" '' pipesim draw interleaved -p 2 -m 2 -v 2 --columns 60
each "${MEMORY_EVERY:-2}" '' pipesim draw 1f1b -p 2 -m 2 -o picture.txt
each "${MEMORY_EVERY:-2}" '' pipesim draw 1f1b -p 2 -m 2 -o trace.json
each "${MEMORY_EVERY:-5}" '' pipesim draw gpipe -p 1 -m 1 -o picture.svg
each 1 '' pipesim export 1f1b -p 2 -m 4 -o out.csv
each 1 '' pipesim export --comms seq1f1b -p 2 -m 4 -o out.csv

# ---- pipetrain --------------------------------------------------------------

make_text 40 >text
tiny="--data $here/text --layers 2 --heads 2 --width 8 --context 4 --batch 2
    --microbatches 2 --warmup 0 --steps 4 --quiet --digest --team 1 --topology pu:2"

# each_train EVERY KEPT ARGUMENT...
each_train() {
    train_every=${MEMORY_EVERY:-$1} train_kept=$2
    shift 2
    # shellcheck disable=SC2086 # one word an argument
    each "$train_every" "$train_kept" pipetrain $tiny "$@"
}

# The checkpoints of all steps, and a folder with the first two.
mkdir whole
resume=
for steps in 1 2 3; do
    # shellcheck disable=SC2086
    expect 0 - '' pipetrain $tiny --stop-at $steps --checkpoint begun $resume
    resume=--resume
    cp -r "begun/step-0000000$steps" whole
    [ $steps -ne 2 ] || cp -r begun half
done
each_train 11 '' --stop-at 1 --generate 2 --check-finite
each_train 61 '' --stop-at 1 --checkpoint run
FAIL_MALLOC_BEFORE='cp -r ../../here/half run'
export FAIL_MALLOC_BEFORE
each_train 83 step-00000002 --stop-at 3 --checkpoint run --resume
unset FAIL_MALLOC_BEFORE
each "${MEMORY_EVERY:-97}" '' pipetrain --check-reference "$models/gpt2-tiny" --team 1

finish
