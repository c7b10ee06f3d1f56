#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi_kill.sh - training on several processes that are killed at any moment, and gone on
# with by other processes on other stages: the losses, weights and optimizer states of the
# unbroken run. Then what ends a run otherwise: a stopped process, signals, a launcher that
# is killed. The last lines count the kills and what they hit.
#
#   PENSTOCK_KILLS=1000   how many, instead of 50
#   PENSTOCK_SEED=7       of what is killed when, as a run that failed has printed it
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"
kills=${PENSTOCK_KILLS:-50}
seed=${PENSTOCK_SEED:-$(date +%s)}
printf '%s: PENSTOCK_SEED=%s\n' "$cli_name" "$seed"

make_text 40 >text
steps=48 every=2
set -- --data text --layers 4 --heads 2 --width 16 --context 8 --batch 8 \
    --microbatches 4 --warmup 2 --val-fraction 0 --quiet

# random N: 0 .. N - 1 into `drawn`, as the seed says.
random() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

newest() {
    find saved -name 'step-*[0-9]' 2>/dev/null | sed 's/.*step-0*//' | sort -n |
        tail -n 1
}

# tensors FOLDER: the checksum of each weight and optimizer state after the last step.
tensors() {
    sed -n '/"sha256"/d; s/^ *"\(.*\)": "\([0-9a-f]\{64\}\)",*$/\1 \2/p' \
        "$1/$last/manifest.json"
}

# digest_of FILE: the digest that a run has printed there.
digest_of() {
    sed -n 's/^digest sha256://p' "$1"
}

# as_unbroken FOLDER LOG: what ../out, a run's checkpoints and its log say is what the
# unbroken run has, bit for bit.
as_unbroken() {
    same "$cli_what: digest" "$whole" "$(digest_of ../out)"
    losses "$2" >found
    same "$cli_what: losses" '' "$(cmp unbroken found 2>&1)"
    tensors "$1" >found
    same "$cli_what: weights and optimizer states" '' "$(cmp unbroken.sums found 2>&1)"
}

# near FILE FILE: two files of one form whose tensors differ by rounding: by no more than
# a 10,000th of the largest number of each. The most goes to ../worst.
near() {
    bytes=$(($(od -An -tu8 -N8 "$1" | tr -d ' ') + 8))
    cmp -n "$bytes" "$1" "$2" || return
    head -c "$bytes" "$1" | sed 's/"data_offsets":/\
/g' | sed -n 's/^ *\[[0-9]*, *\([0-9]*\)\].*/\1/p' >ends
    od -An -v -w4 -tfF -j "$bytes" "$1" >one
    od -An -v -w4 -tfF -j "$bytes" "$2" >two
    paste one two | awk '
        NR == FNR { end[NR] = $1 / 4; tensors = NR; next }
        FNR == 1 || FNR > end[i] { i++ }
        {
            apart = $1 > $2 ? $1 - $2 : $2 - $1
            if (apart > most[i]) most[i] = apart
            large = $1 < 0 ? -$1 : $1
            if (large > largest[i]) largest[i] = large
        }
        END {
            for (i = 1; i <= tensors; i++) {
                if (most[i] > worst * largest[i]) worst = most[i] / largest[i]
                if (!(most[i] <= 1e-4 * largest[i])) exit 1
            }
            print worst >>"../worst"
            exit tensors == 0 || FNR != end[tensors]
        }' ends -
}

# near_losses LOG: each step is there, with losses and norms of the unbroken run but for
# rounding.
near_losses() {
    losses "$1" | cat unbroken - | awk -F '[:,]' -v steps="$steps" '
        NR <= steps { loss[$2] = $4; norm[$2] = $6; next }
        function differ(one, other) { return (one - other) ^ 2 > (1e-5 * other) ^ 2 }
        {
            if (!($2 in seen)) count++
            seen[$2]
            if (differ($4, loss[$2]) || differ($6, norm[$2])) wrong = 1
        }
        END { exit wrong || count != steps }'
}

# check_saved: what is in `saved`, if anything is, lacks at most an interval, and one whose
# save was under way, of the steps that are logged; and what is logged is the unbroken
# run's.
check_saved() {
    found=$(newest)
    [ -n "$found" ] || [ -z "$kept" ] ||
        fail "$cli_what: no checkpoint is left" "step $kept" ''
    logged=$(sed 's/^{"step": \([0-9]*\),.*/\1/' log 2>/dev/null | tail -n 1)
    cli_checks=$((cli_checks + 1))
    [ $((${found:-0} + 2 * every)) -ge "${logged:-0}" ] ||
        fail "$cli_what: more is lost" "step $logged" "step $found"
    same "$cli_what: losses of another run" '' \
        "$([ ! -e log ] || losses log | grep -vxF -f unbroken)"
    kept=$found
}

# go_on ARGUMENT...: a copy of what is saved goes on to its end at once: by turns on the
# layout that was killed, on other stages in one process or several, or with two copies of
# the pipeline, where sums are rounded otherwise.
go_on() {
    rm -rf again again.log
    cp -R saved again
    cp log again.log
    other=$((stages % 4 + 1))
    set -- "$program" "$@" --steps $steps --log again.log --digest --checkpoint again \
        --resume
    turn=$((turn + 1))
    # Of two copies the last checkpoint is looked at, which then is a run's own.
    [ $((turn % 5)) != 2 ] || [ "$kept" -lt $steps ] || turn=$((turn + 1))
    case $((turn % 5)) in
    0)
        on_same=$((on_same + 1))
        set -- launched "$processes" "$@" --stages "$stages"
        ;;
    1)
        on_others=$((on_others + 1))
        set -- launched $((processes % 3 + 2)) "$@" --stages 4
        ;;
    2)
        with_copies=$((with_copies + 1))
        expect 0 - "~*has data_parallel 1 and this run 2*" \
            "$@" --stages $((stages % 2 + 1)) --data-parallel 2
        cli_checks=$((cli_checks + 3))
        near_losses again.log ||
            fail "$cli_what: losses, two copies" "$(cat unbroken)" "$(losses again.log)"
        for file in model optimizer; do
            near "unbroken.saved/$last/$file.safetensors" \
                "again/$last/$file.safetensors" ||
                fail "$cli_what: $file of two copies, but for rounding"
        done
        return
        ;;
    *)
        on_stages=$((on_stages + 1))
        set -- "$@" --stages $other
        ;;
    esac
    expect 0 - - "$@"
    as_unbroken again again.log
}

last=step-$(printf %08d $steps)
"$program" "$@" --steps $steps --stages 1 --log log --digest \
    --checkpoint unbroken.saved >../out
whole=$(digest_of ../out)
same 'a digest' 64 ${#whole}
losses log >unbroken
tensors unbroken.saved >unbroken.sums
same 'three tensors a weight' $((3 * $(grep -c -v '^[mv]\.' unbroken.sums))) \
    "$(wc -l <unbroken.sums)"
rm log

# ---- kills ------------------------------------------------------------------

# saves_now: a save of this run is under way.
saves_now() {
    find saved -name 'step-*.tmp' -newer ../started 2>/dev/null | grep -q .
}

# One of them, at $when, of a run that goes on from what is saved. `kept` is the newest
# step that was there before, "" for none.
kill_once() {
    random 3
    stages=$((drawn + 2))
    random $((stages - 1))
    processes=$((drawn + 2))
    random $processes
    victim=$drawn
    random 3
    nth=$((drawn + 1))
    KILL_RANK='' KILL_POINT='' resume=''
    case $when in
    rank | all | launcher) ;;
    snapshot | shard-half | shard-synced) KILL_RANK=$victim KILL_POINT=$when:$nth ;;
    *) KILL_RANK=0 KILL_POINT=$when:$nth ;; # one process alone comes there
    esac
    [ -z "$kept" ] || resume=--resume
    # Half of what comes to no point is killed while it starts or loads.
    random 2
    starts=0
    [ -n "$KILL_POINT" ] || starts=$drawn
    # Open MPI's launcher gives the others a second or two to end, which is too much here;
    # but where it gives none to processes that start, it may wait without end itself.
    [ "$MPI_NAME" != openmpi ] || [ "$starts" = 1 ] ||
        options="$all_options --mca odls_base_sigkill_timeout 0"
    cli_what="$when $KILL_POINT of process $victim of $processes on $stages stages"
    : >../started
    # shellcheck disable=SC2086 # a word or none
    start $processes "$@" --steps $steps --stages $stages --log log --digest \
        --checkpoint saved --checkpoint-every $every $resume
    saving=1
    if [ -z "$KILL_POINT" ]; then
        [ "$starts" = 1 ] || until_steps $(($(count_steps) + 1))
        random 40
        sleep "$(printf '0.%02d' "$drawn")"
        case $when in
        rank) cat "$PIDS/$victim" ;;
        all) cat "$PIDS"/* && echo "$launcher" ;;
        launcher) echo "$launcher" ;;
        esac 2>/dev/null | xargs kill -9 2>/dev/null
        saves_now || saving=0
    fi
    all_gone 300
    KILL_RANK='' KILL_POINT='' options=$all_options
    if [ "$status" = 0 ]; then
        as_unbroken saved log
        rm -rf saved log
        kept=''
        ended=$((ended + 1))
        return
    fi
    # By its launcher's status it was killed, or one that saw it has ended the others; or
    # all was done, and the launcher was about to end.
    [ "$status" = 137 ] || [ "$status" = 9 ] || grep -q 'is gone: it was killed' ../err ||
        [ -n "$(digest_of ../out)" ] ||
        fail "$cli_what: it has failed" '' "status $status: $(cat ../out ../err)"
    echo "$when" >>../kinds
    killed=$((killed + 1))
    inside=$((inside + saving))
    check_saved
    [ -n "$kept" ] || return
    after=$((after + 1))
    go_on "$@"
}

all_options=$options
: >../kinds
: >../worst
kept='' killed=0 after=0 inside=0 ended=0
turn=0 on_same=0 on_others=0 on_stages=0 with_copies=0
while [ "$killed" -lt "$kills" ] && [ $cli_failures -lt 5 ]; do
    for when in snapshot rank shard-half all shard-synced launcher before-manifest rank \
        manifest-written before-rename all renamed pruning; do
        [ "$killed" -lt "$kills" ] || break
        kill_once "$@"
    done
done
kills_longest=$longest

# What is left over goes on to its end.
resume=''
[ -z "$kept" ] || resume=--resume
cli_what='the last one'
# shellcheck disable=SC2086 # a word or none
expect 0 - - "$program" "$@" --steps $steps --stages 3 --log log --checkpoint saved \
    $resume --digest
as_unbroken saved log
rm -rf saved log again again.log

# ---- other ends -------------------------------------------------------------

# long PROCESSES: a run that goes on until it is ended, has logged some steps and saved.
long() {
    rm -rf saved log
    long_count=$1
    shift
    start "$long_count" "$@" --steps 1000000 --stages 4 --log log --checkpoint saved \
        --checkpoint-every 20
    until_steps 30
    while kill -0 "$launcher" 2>/dev/null && [ -z "$(newest)" ]; do
        sleep 0.02
    done
}

for victim in 0 2; do
    cli_what="process $victim is killed"
    long 3 "$@"
    kill -9 "$(cat "$PIDS/$victim")"
    all_gone 100
    differ "$cli_what: exit status" 0 "$status"
    # MPICH's launcher says it, and ends the others before they can.
    case $MPI_NAME in
    openmpi) said 1 "^pipetrain: process $victim on .* (pid [0-9]*) is gone: it was killed or crashed$" ;;
    *) same "$cli_what" 1 "$(cat ../out ../err | grep -c 'EXIT CODE: 9')" ;;
    esac

    cli_what="process $victim is stopped"
    PENSTOCK_HEARTBEAT=2
    export PENSTOCK_HEARTBEAT
    long 3 "$@"
    unset PENSTOCK_HEARTBEAT
    kill -STOP "$(cat "$PIDS/$victim")"
    all_gone 150
    differ "$cli_what: exit status" 0 "$status"
    said 1 "^pipetrain: process $victim on .* has not been heard of for 2 s$"
    said 1 "^pipetrain: process .* waited for process $victim on .*, with rank "

    cli_what="process $victim is asked to end"
    long 3 "$@"
    kill -TERM "$(cat "$PIDS/$victim")"
    all_gone 150
    same "$cli_what: exit status" 0 "$status"
    same "$cli_what" 1 "$(grep -c '^stopped by .*signal.* after step .*; the checkpoint is in saved' ../out)"
    true_that "$cli_what: what is saved" "$program" "$@" --steps 1000000 --stages 1 \
        --checkpoint saved --resume --stop-at 1
done

for signal in KILL TERM; do
    cli_what="the launcher and SIG$signal"
    long 3 "$@"
    kill -$signal "$launcher"
    all_gone 100
    true_that "$cli_what: what is saved" "$program" "$@" --steps 1000000 --stages 1 \
        --checkpoint saved --resume --stop-at 1
done

# Its processes do without it, and end as usual when it goes on.
cli_what='the launcher is stopped'
PENSTOCK_HEARTBEAT=2
export PENSTOCK_HEARTBEAT
long 3 "$@"
unset PENSTOCK_HEARTBEAT
kill -STOP "$launcher"
sleep 4
until_steps $(($(count_steps) + 20))
kill -TERM "$(cat "$PIDS/0")"
kill -CONT "$launcher"
all_gone 150
same "$cli_what: exit status" 0 "$status"

# ---- restarts ---------------------------------------------------------------

# restarted WHAT N COMMAND...: under a supervisor, in the background.
restarted() {
    rm -rf saved log ../once
    cli_what=$1 most=$2
    shift 2
    rm -rf "$PIDS"
    mkdir "$PIDS"
    # shellcheck disable=SC2086 # one word an argument
    pipetrain --restart "$most" -- $MPIEXEC $options -n 2 ../member "$program" "$@" \
        --stages 4 --log log --checkpoint saved --digest >../out 2>../err </dev/null &
    launcher=$!
}

KILL_RANK=1 KILL_POINT=shard-synced:3 KILL_ONCE=$cli_scratch/once
restarted 'a process is killed once' 2 "$@" --steps $steps --checkpoint-every $every
until_steps $((2 * every))
all_gone 600
KILL_RANK='' KILL_ONCE=''
same "$cli_what: exit status" 0 "$status"
said 1 "^pipetrain: restart 1 of 2: .* ended with status [0-9]*; it goes on with --resume$"
same "$cli_what: digest" "$whole" "$(sed -n 's/^digest sha256://p' ../out)"
losses log >found
true_that "$cli_what: the losses" cmp unbroken found

KILL_RANK=0 KILL_POINT=snapshot:1
restarted 'a process is always killed' 1 "$@" --steps $steps --checkpoint-every $every
all_gone 600
KILL_RANK=''
differ "$cli_what: exit status" 0 "$status"
said 1 "^pipetrain: restart 1 of 1: .*; it begins anew, since there is no checkpoint yet$"
said 1 "^pipetrain: .*, and 1 restart did not help$"

restarted 'the supervisor is asked to end' 3 "$@" --steps 1000000 --checkpoint-every 20
until_steps 30
kill -TERM "$launcher"
all_gone 150
said 0 'restart'

restarted 'the launcher is killed' 1 "$@" --steps 1000000 --checkpoint-every 20
until_steps 30
while kill -0 "$launcher" 2>/dev/null && [ -z "$(newest)" ]; do
    sleep 0.02
done
began=$(tenths)
xargs kill -9 <"/proc/$launcher/task/$launcher/children"
while ! grep -q 'restart 1 of 1' ../err && kill -0 "$launcher" 2>/dev/null; do
    sleep 0.02
done
until_steps $(($(count_steps) + 1))
took=$(($(tenths) - began))
printf '%s: the next step %d.%d s after the launcher was killed\n' "$cli_name" \
    $((took / 10)) $((took % 10))
kill -TERM "$launcher"
all_gone 150
said 1 "^pipetrain: restart 1 of 1: .* was killed by signal 9; it goes on with --resume$"

restarted 'a wrong command line' 3 "$@" --no-such-option
all_gone 150
same "$cli_what: exit status" 2 "$status"
said 0 'restart'

# ---- counts -----------------------------------------------------------------

sort ../kinds | uniq -c | awk -v name="$cli_name" \
    '{ printf "%s: %d killed, %s\n", name, $1, $2 }'
printf '%s: resumed after kills: %d on the same layout, %d on other stages, %d also in other processes, bit for bit; %d with two copies, but for %s of a tensor at most\n' \
    "$cli_name" $on_same $on_stages $on_others $with_copies \
    "$(sort -g ../worst | tail -n 1)"
printf '%s: %d runs ended before they were killed, all killed ones were gone after %d.%d s at most\n' \
    "$cli_name" $ended $((kills_longest / 10)) $((kills_longest % 10))
printf '%s: %d kills, %d after a committed checkpoint, %d before any, %d inside a save\n' \
    "$cli_name" $killed $after $((killed - after)) $inside
if [ "$kills" -ge 20 ]; then
    [ $((2 * after)) -ge $killed ] || fail 'too few kills are after a committed checkpoint'
    [ $((5 * inside)) -ge $killed ] || fail 'too few kills are inside a save'
fi

finish
