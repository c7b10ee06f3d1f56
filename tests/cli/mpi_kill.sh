#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi_kill.sh - training on several processes that are killed at any moment, and gone on
# with by other processes on other stages: the losses and weights of the unbroken run.
# Then what ends a run otherwise: a stopped process, signals, a launcher that is killed.
#
#   PENSTOCK_KILLS=1000   how many, instead of 50
#   PENSTOCK_SEED=7       of what is killed when, as a run that failed has printed it
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"
program=$(command -v pipetrain)
kills=${PENSTOCK_KILLS:-50}
seed=${PENSTOCK_SEED:-$(date +%s)}
printf '%s: PENSTOCK_SEED=%s\n' "$cli_name" "$seed"

# What killed processes leave in memory goes away with the folder of this test.
OMPI_MCA_btl_vader_backing_directory=$cli_scratch
TMPDIR=$cli_scratch
export OMPI_MCA_btl_vader_backing_directory TMPDIR

make_text 40 >text
steps=48 every=2
set -- --data text --layers 4 --heads 2 --width 16 --context 8 --batch 8 \
    --microbatches 4 --warmup 2 --val-fraction 0 --quiet

# random N: 0 .. N - 1 into `drawn`, as the seed says.
random() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

# Starts pipetrain as process $rank of the job, in a file by its number, to be killed at
# $KILL_POINT where it is $KILL_RANK and the file of $KILL_ONCE is not there yet.
cat >../member <<'END'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
echo $$ >"$PIDS/$rank"
if [ "$rank" = "${KILL_RANK:-}" ] && [ ! -e "${KILL_ONCE:-/nonexistent}" ]; then
    [ -z "${KILL_ONCE:-}" ] || : >"$KILL_ONCE"
    PENSTOCK_KILL_AT=$KILL_POINT
    export PENSTOCK_KILL_AT
fi
exec "$@"
END
chmod +x ../member
PIDS=$cli_scratch/pids
export PIDS KILL_RANK KILL_POINT KILL_ONCE
KILL_RANK='' KILL_POINT='' KILL_ONCE=''

# start PROCESSES ARGUMENT...: in the background; $launcher is then the launcher.
start() {
    start_count=$1
    shift
    rm -rf "$PIDS"
    mkdir "$PIDS"
    # shellcheck disable=SC2086 # one word an argument
    $MPIEXEC $options -n "$start_count" ../member "$program" "$@" \
        >../out 2>../err </dev/null &
    launcher=$!
}

# True: some process of the job is there, and not only its exit status.
alive() {
    for file in "$PIDS"/*; do
        [ -e "$file" ] || continue
        ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$file")/status" ||
            return 0
    done
    return 1
}

tenths() {
    awk '{ printf "%d\n", $1 * 10 }' /proc/uptime
}

# all_gone TENTHS: the launcher has ended, with $status, and all processes have within so
# long; $took is how long it took.
longest=0
all_gone() {
    began=$(tenths)
    while alive || kill -0 "$launcher" 2>/dev/null; do
        took=$(($(tenths) - began))
        if [ "$took" -gt "$1" ]; then
            fail "$cli_what: processes live on" '' "$(cat ../out ../err)"
            # shellcheck disable=SC2046 # numbers
            kill -9 "$launcher" $(cat "$PIDS"/*) 2>/dev/null
        fi
        sleep 0.02
    done
    cli_checks=$((cli_checks + 1))
    took=$(($(tenths) - began))
    [ "$took" -le "$longest" ] || longest=$took
    wait "$launcher" 2>/dev/null && status=0 || status=$?
}

# count_steps: lines of the log.
count_steps() {
    sed -n '$=' log 2>/dev/null | grep . || echo 0
}

# until_steps N: that many steps have been logged, or the launcher has ended.
until_steps() {
    while kill -0 "$launcher" 2>/dev/null &&
        [ "$(count_steps)" -lt "$1" ]; do
        sleep 0.02
    done
}

# What a line of the log says that no clock does, each step once.
losses() {
    sed 's/, "seconds.*//' "$1" | sort -u
}

newest() {
    find saved -name 'step-*[0-9]' 2>/dev/null | sed 's/.*step-0*//' | sort -n |
        tail -n 1
}

# check_saved: what is in `saved` can be gone on with, if anything is, and lacks at most
# an interval, and one whose save was under way, of the steps that are logged.
check_saved() {
    found=$(newest)
    if [ -z "$found" ]; then
        [ -z "$kept" ] || fail "$cli_what: no checkpoint is left" "step $kept" ''
        found=0
    else
        true_that "$cli_what: a valid checkpoint" "$program" "$@" --steps $steps \
            --stages 1 --checkpoint saved --resume --stop-at 1
    fi
    logged=$(sed 's/^{"step": \([0-9]*\),.*/\1/' log 2>/dev/null | tail -n 1)
    cli_checks=$((cli_checks + 1))
    [ $((found + 2 * every)) -ge "${logged:-0}" ] ||
        fail "$cli_what: more is lost" "step $logged" "step $found"
    [ "$found" = 0 ] || kept=$found
}

whole=$("$program" "$@" --steps $steps --stages 1 --log log --digest |
    sed -n 's/^digest sha256://p')
same 'a digest' 64 ${#whole}
losses log >unbroken
rm log

# ---- kills ------------------------------------------------------------------

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
    cli_what="$when $KILL_POINT of process $victim of $processes on $stages stages"
    # shellcheck disable=SC2086 # a word or none
    start $processes "$@" --steps $steps --stages $stages --log log --digest \
        --checkpoint saved --checkpoint-every $every $resume
    if [ -z "$KILL_POINT" ]; then
        # Half of them while it starts or loads, half while it trains.
        random 2
        [ "$drawn" = 0 ] || until_steps $(($(count_steps) + 1))
        random 40
        sleep "$(printf '0.%02d' "$drawn")"
        case $when in
        rank) cat "$PIDS/$victim" ;;
        all) cat "$PIDS"/* && echo "$launcher" ;;
        launcher) echo "$launcher" ;;
        esac 2>/dev/null | xargs kill -9 2>/dev/null
    fi
    all_gone 300
    KILL_RANK='' KILL_POINT=''
    if [ "$status" = 0 ]; then
        same "$cli_what: digest" "$whole" "$(sed -n 's/^digest sha256://p' ../out)"
        losses log >found
        true_that "$cli_what: the losses" cmp unbroken found
        rm -rf saved log kept
        kept=''
        ended=$((ended + 1))
        return
    fi
    # By its launcher's status it was killed, or one that saw it has ended the others.
    [ "$status" = 137 ] || [ "$status" = 9 ] || grep -q 'is gone: it was killed' ../err ||
        fail "$cli_what: it has failed" '' "status $status: $(cat ../out ../err)"
    echo "$when" >>../kinds
    check_saved "$@"
}

# Open MPI's launcher gives the others a second or two to end, which is too much here.
all_options=$options
[ "$MPI_NAME" != openmpi ] || options="$options --mca odls_base_sigkill_timeout 0"
: >../kinds
kept='' ended=0
while [ "$(wc -l <../kinds)" -lt "$kills" ] && [ $cli_failures -lt 5 ]; do
    for when in snapshot rank shard-half all shard-synced launcher before-manifest rank \
        manifest-written before-rename all renamed pruning; do
        [ "$(wc -l <../kinds)" -lt "$kills" ] || break
        kill_once "$@"
    done
done
options=$all_options
# What is left over goes on to its end.
resume=''
[ -z "$kept" ] || resume=--resume
# shellcheck disable=SC2086 # a word or none
same 'the last one, digest' "$whole" "$("$program" "$@" --steps $steps --stages 3 \
    --log log --checkpoint saved $resume --digest | sed -n 's/^digest sha256://p')"
losses log >found
true_that 'the last one, losses' cmp unbroken found
sort ../kinds | uniq -c | awk -v name="$cli_name" \
    '{ printf "%s: %d killed, %s\n", name, $1, $2 }'
printf '%s: %d kills, %d runs to the end between them, all gone after %d.%d s at most\n' \
    "$cli_name" "$(wc -l <../kinds)" "$ended" $((longest / 10)) $((longest % 10))
rm -rf saved log

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

# said COUNT PATTERN: so many lines of standard error are that.
said() {
    same "$cli_what: $2" "$1" "$(grep -c -e "$2" ../err)"
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

finish
