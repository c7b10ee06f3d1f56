#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fault.sh - faults on purpose: whatever happens in whichever callback, the run ends in
# time with a line that says where, a status that is not 0, the last checkpoint as it
# was, and no process left.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
make_text 200 >text
# shellcheck disable=SC3045 # where the shell can, no cores
ulimit -c 0 2>/dev/null || :

shape='--stages 4 --microbatches 8'
began=$(date +%s%N)
# shellcheck disable=SC2086 # one word an argument
expect 0 '~validation*' '' train $shape --checkpoint run --steps 6 --stop-at 3
whole=$((($(date +%s%N) - began) / 1000000)) # ms, of a run without a fault here and now
before=$(sums run)

abort_status=134 segv_status=139 # how shells tell of a signal

# faulty LIMIT STATUS ERR SPEC ARGUMENT...: a resumed run with that fault. ERR is as in
# expect. It ends within LIMIT seconds, beside what a busy machine takes for its start and
# end, and neither harms the checkpoint nor lives on.
faulty() {
    limit=$1 status=$2 err=$3 spec=$4
    shift 4
    began=$(date +%s%N)
    # shellcheck disable=SC2086,SC2154 # words of lib.sh
    expect "$status" - "$err" timeout 60 pipetrain $cli_tiny $shape --steps 6 \
        --checkpoint "$PWD/run" --resume --fault "$spec" "$@"
    took=$((($(date +%s%N) - began) / 1000000))
    cli_checks=$((cli_checks + 1))
    [ $took -le $((limit * 1000 + 5 * whole)) ] ||
        fail "--fault $spec $*: time" "at most $limit s" "$took ms"
    same "--fault $spec $*: the checkpoint" "$before" "$(sums run)"
    same "--fault $spec $*: processes that live on" '' \
        "$(grep -lsaF -f ../folder /proc/[0-9]*/cmdline)"
}
echo "$PWD/run" >../folder # in the command line of each run, and of nothing else

# ---- every kind in every place ----------------------------------------------

# try_place SCHEDULE OP NAME CALLBACK [CELL]: what follows is tried there, in step 4, the first after resuming.
try_place() {
    schedule=$1 op=$2
    name=$3       # of the action, as a crash tells it
    callback=$4   # as an error tells it
    case $op in
    reduce | step) at=stage=2 where="stage 2" cell= ;;
    *) at=stage=2,mb=5 where="stage 2, microbatch 5" cell=$5 ;;
    esac
    set -- --schedule "$schedule"
    faulty 3 1 "~pipetrain: $where, $callback${cell:+ ($cell)}: an error on purpose
  rank 0 *
  rank 1 *
  rank 2 has been in *; the culprit
  rank 3 *" "$at,op=$op",kind=error "$@"
    faulty 3 $abort_status \
        "pipetrain: SIGABRT (abort) in $where, $name, on rank 2, in step 4" \
        "$at,op=$op",kind=abort "$@"
    faulty 3 $segv_status \
        "pipetrain: SIGSEGV (invalid memory access) in $where, $name, on rank 2, in step 4" \
        "$at,op=$op",kind=segv "$@"
    faulty 3 $segv_status \
        "pipetrain: SIGSEGV (invalid memory access) in $where, $name, on rank 2, in step 4" \
        "$at,op=$op",kind=overflow "$@"
    faulty 3 1 \
        "pipetrain: exit() was called in $where, $name, on rank 2, in step 4; this run is not complete" \
        "$at,op=$op",kind=exit "$@"
}
try_place 1f1b F forward forward 2F5
try_place 1f1b B backward backward-input 2B5
try_place 1f1b W backward backward-weight 2B5
try_place zb-h1 I backward-input backward-input 2I5
try_place zb-h1 W backward-weight backward-weight 2W5
try_place zb-h1 reduce reduce reduce
try_place 1f1b step step step

# ---- hanging ----------------------------------------------------------------

# hangs SPEC WHERE WAITERS ARGUMENT...: the limit of 1 s, and less than 2 more.
hangs() {
    spec=$1 where=$2 waiters=$3
    shift 3
    faulty 4 1 "~pipetrain: rank 2 is in $where, and no action has ended for 1 s, the watchdog's limit$waiters; 1 thread in a callback that does not return is abandoned, and [1-9]* bytes of memory
  rank 0 *
  rank 1 *
  rank 2 has been in * for 1.* s; the culprit
  rank 3 *" "$spec" --watchdog 1 "$@"
}
hangs stage=2,mb=5,op=F,kind=hang 'stage 2, microbatch 5, forward (2F5)' \
    '; 3 other ranks wait for it'
hangs stage=2,mb=7,op=B,kind=hang 'stage 2, microbatch 7, backward (2B7)' \
    '; 3 other ranks wait for it'
hangs stage=2,mb=5,op=I,kind=hang 'stage 2, microbatch 5, backward-input (2I5)' \
    '; 3 other ranks wait for it' --schedule zb-h1
hangs stage=2,op=reduce,kind=hang 'stage 2, reduce' ''
hangs stage=2,op=step,kind=hang 'stage 2, step' ''
faulty 4 1 '~*
  rank 0 has waited in 0B4 (action 13 of 16) for 1.* s for the gradient for stage 0, microbatch 4, from rank 1
*' stage=2,mb=5,op=F,kind=hang --watchdog 1

# ---- the data reader --------------------------------------------------------

faulty 3 1 'pipetrain: data reader, step 4: an error on purpose' op=data,kind=error
faulty 3 1 'pipetrain: data reader, step 5: an error on purpose' op=data,kind=error,step=5
faulty 3 1 'pipetrain: exit() was called in the data reader, in step 4; this run is not complete' \
    op=data,kind=exit
faulty 4 1 "pipetrain: stuck for longer than the watchdog's limit in the data reader, in step 4" \
    op=data,kind=hang --watchdog 1
faulty 3 $abort_status 'pipetrain: SIGABRT (abort) in the data reader, in step 4' \
    op=data,kind=abort
faulty 3 $segv_status \
    'pipetrain: SIGSEGV (invalid memory access) in the data reader, in step 4' \
    op=data,kind=segv

# ---- numbers that are none --------------------------------------------------

rest='no weight was changed. A lower rate, or clipping, would work'
faulty 3 1 "pipetrain: step 4: the loss of microbatch 5 and the gradient of wte.weight are not finite; $rest" \
    stage=2,mb=5,op=F,kind=nan
faulty 3 1 "pipetrain: step 4: the gradient of wte.weight is not finite; $rest" \
    stage=2,mb=5,op=B,kind=nan
faulty 3 1 "pipetrain: step 4: the gradient of h.2.ln_1.weight is not finite; $rest" \
    stage=2,mb=5,op=W,kind=nan
faulty 3 1 "pipetrain: step 5: the gradient of h.3.ln_1.weight is not finite; $rest" \
    stage=3,op=reduce,step=5,kind=nan
faulty 3 1 "pipetrain: step 5: the loss of microbatch 0 and the gradient of wte.weight are not finite; $rest" \
    stage=3,op=step,kind=nan

# named NAME WHERE SPEC ARGUMENT...: with a look at everything.
named() {
    what=$1 where=$2 spec=$3
    shift 3
    faulty 3 1 "~pipetrain: $where: its $what is not finite: element 0 of [1-9]* is NaN
  rank 0 *" "$spec" --check-finite "$@"
}
named output 'stage 2, microbatch 5, forward (2F5)' stage=2,mb=5,op=F,kind=nan
named 'input gradient' 'stage 3, microbatch 5, backward-input (3B5)' \
    stage=3,mb=5,op=F,kind=nan
named 'input gradient' 'stage 2, microbatch 5, backward-input (2I5)' \
    stage=2,mb=5,op=I,kind=nan --schedule zb-h1
named gradient 'stage 2, microbatch 5, backward-weight (2W5)' \
    stage=2,mb=5,op=W,kind=nan --schedule zb-h1
named output 'stage 1, microbatch 0, forward (1F0)' stage=1,op=step,kind=nan

# ---- what does no harm ------------------------------------------------------

# ends_as_ever ARGUMENT...: in the same weights.
# shellcheck disable=SC2086 # one word an argument
plain=$(train $shape --digest | tail -n 1)
# shellcheck disable=SC2086
ends_as_ever() {
    expect 0 "~*
$plain" '' train $shape --digest "$@"
}
ends_as_ever --check-finite
ends_as_ever --fault stage=2,mb=5,op=F,kind=slow,seconds=0.3 \
    --fault stage=1,mb=0,op=B,kind=slow,seconds=0.3 \
    --fault stage=0,op=reduce,kind=slow,seconds=0.1 \
    --fault op=data,kind=slow,seconds=0.1,step=7
# shellcheck disable=SC2086
expect 0 - 'pipetrain: warning: 1 of 2 faults never came: their steps were not run' \
    train $shape --fault op=data,kind=slow,seconds=0 \
    --fault stage=2,mb=5,op=F,kind=error,step=21
# Slower than the limit, but it comes back: nothing has to be abandoned.
faulty 6 1 "~pipetrain: rank 2 is in stage 2, microbatch 5, forward (2F5), and no action has ended for 2 s, the watchdog's limit; 3 other ranks wait for it
*" stage=2,mb=5,op=F,kind=slow,seconds=3 --watchdog 2
true_that 'nothing is abandoned then' sh -c '! grep abandoned ../err'

# ---- faults that cannot be --------------------------------------------------

see="; see 'pipetrain --help'"
expect 2 '' "pipetrain: --fault op=F: kind= is missing$see" train --fault op=F
expect 2 '' "pipetrain: --fault stage=1,mb=1,op=Q,kind=error: op 'Q': must be one of F, B, I, W, reduce, step, data$see" \
    train --fault stage=1,mb=1,op=Q,kind=error
expect 2 '' "pipetrain: --fault nonsense: 'nonsense': a fault is made of stage=, mb=, op=, step=, kind= and seconds=, with commas between$see" \
    train --fault op=data,kind=error --fault nonsense
expect 2 '' "pipetrain: --fault needs a value (PLACE,KIND)$see" train --fault
expect 1 '' 'pipetrain: a fault in stage 4; the stages are 0 to 3' \
    train --stages 4 --fault stage=4,mb=0,op=F,kind=error
expect 1 '' 'pipetrain: a fault in microbatch 4; the microbatches are 0 to 3' \
    train --stages 4 --fault stage=0,mb=4,op=F,kind=error
set --
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
    set -- "$@" --fault "op=data,kind=slow,seconds=0,step=$i"
done
expect 2 '' "pipetrain: --fault is given more than 16 times$see" train "$@"

finish
