#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi.sh - pipetrain on several processes of this machine: what one process does.
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"
make_text 200 >text
cli_tiny='--data text --layers 8 --heads 2 --width 16 --context 8 --batch 8
    --microbatches 8 --steps 3 --quiet'

# ---- every kind, every mixture ----------------------------------------------

one=$(sum_of alone --stages 1)
same 'a digest' 64 ${#one}
processes=2
for kind in gpipe 1f1b eager-1f1b zb-h1 zb-h2 zb-1p zb-2p bpipe; do
    same "$kind, $processes" "$one" "$(sum_of on $processes --schedule $kind --stages 4)"
    processes=$((processes % 3 + 2))
done
for kind in interleaved looped-bfs interleaved-zb zb-v zb-v-auto v-half v-min 1f1b-v \
    dualpipev hanayo gis; do
    same "$kind, $processes" "$one" \
        "$(sum_of on $processes --schedule $kind --stages 8 --chunks 2)"
    processes=$((processes % 3 + 2))
done
for workers in 3,1 0,4 1,2,1 2,0,1,1; do
    processes=$(echo $workers | tr , '\n' | wc -l)
    same "workers $workers" "$one" \
        "$(sum_of on "$processes" --stages 4 --workers $workers)"
done
for kind in dualpipe chimera; do
    same "$kind" "$(sum_of alone --schedule $kind --stages 4 --chunks 2)" \
        "$(sum_of on 2 --schedule $kind --stages 4 --chunks 2)"
done
same 'seq1f1b' "$(sum_of alone --schedule seq1f1b --stages 4)" \
    "$(sum_of on 3 --schedule seq1f1b --stages 4)"
same 'pipedream' "$(sum_of alone --schedule pipedream --stages 4 --untied)" \
    "$(sum_of on 2 --schedule pipedream --stages 4 --untied)"
for copies in 2 3 4; do
    set -- --microbatches 2 --stages 2 --data-parallel $copies
    threads=$(sum_of alone "$@")
    same "$copies copies, again" "$threads" "$(sum_of alone "$@")"
    same "$copies copies on 2" "$threads" "$(sum_of on 2 "$@")"
    same "$copies copies on $copies" "$threads" "$(sum_of on $copies "$@")"
done
same 'shares' "$(sum_of alone --microbatches 2 --data-parallel 2 --shares 3,1)" \
    "$(sum_of on 2 --microbatches 2 --data-parallel 2 --shares 3,1)"

# ---- the rest of what a run does --------------------------------------------

set -- --stages 4 --generate 40 --prompt ab --log log.jsonl --trace trace.json
alone "$@" >one.txt
sed 's/"seconds.*//' log.jsonl >one.log
grep -o '"name": *"[0-9][^"]*"' trace.json | sort >one.trace
rm log.jsonl trace.json
on 3 "$@" >three.txt
true_that 'what is printed' cmp one.txt three.txt
sed 's/"seconds.*//' log.jsonl >three.log
true_that 'the log' cmp one.log three.log
grep -o '"name": *"[0-9][^"]*"' trace.json | sort >three.trace
true_that 'the trace has every rank' cmp one.trace three.trace

# Saved by 3, gone on with by others, each to the same end.
whole=$(sum_of alone --stages 4 --steps 6)
on 3 --stages 4 --steps 6 --stop-at 3 --checkpoint saved >/dev/null
for processes in 1 2 4; do
    cp -r saved again
    same "saved by 3, resumed by $processes" "$whole" \
        "$(sum_of on $processes --stages 4 --steps 6 --checkpoint again --resume)"
    rm -r again
done
same 'saved by 3, resumed alone on one stage' "$whole" \
    "$(sum_of alone --stages 1 --steps 6 --checkpoint saved --resume)"

# ---- words ------------------------------------------------------------------

expect 1 '' - on 2 --data nothing.txt --stages 2
same 'one process says it' 1 "$(grep -c '^pipetrain: process 0 on .*: nothing.txt: No such file' ../err)"
expect 1 '' - on 2 --stages 9
same 'one process says it' 1 "$(grep -c '9 stages for 8 layers' ../err)"
expect 1 '' '~pipetrain: process 0 on *: --workers 3,2: it is a number for each of 2 processes, as in 2,1, and they add up to the 4 ranks*' \
    on 2 --stages 4 --workers 3,2
expect 1 '' 'pipetrain: --workers 1,1: there is one process; a launcher of MPI, as in '"'mpirun -np 2'"', starts several' \
    alone --stages 2 --workers 1,1
expect 1 - - on 2 --stages 4 --fault stage=2,mb=1,op=F,kind=error
same 'one process names the stage' 1 \
    "$(grep -c '^pipetrain: stage 2, microbatch 1, forward' ../err)"
launched 2 "$program" --data text --stages 4 --steps 0 --width 16 --report-binding \
    >bound.txt
for rank in 0 1 2 3; do
    true_that "rank $rank is somewhere" \
        grep "^process $((rank / 2)) on .*, rank $rank: " bound.txt
done

finish
