# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# mpi_lib.sh - for tests that start processes with the launcher of the MPI that configure
# found; read after lib.sh, and left with 77 where there is none.
#
# Sets: library    "Open MPI", "MPICH"
#       options    of the launcher
#       program    pipetrain
[ "${MPI_NAME:-no}" != no ] || {
    skip 'there is no MPI'
    exit 77
}
# shellcheck disable=SC2086 # a command and its words
command -v ${MPIEXEC:?} >/dev/null 2>&1 || {
    skip "there is no $MPIEXEC"
    exit 77
}
unset PENSTOCK_MPI_THREADS PENSTOCK_MPI_TAG_UB PENSTOCK_MPI_CHUNK PENSTOCK_HEARTBEAT || :
# What a sanitizer finds in MPI is not ours.
ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS+:$ASAN_OPTIONS}
export ASAN_OPTIONS

program=$(command -v pipetrain)

# More processes than cores, by any user.
# shellcheck disable=SC2034 # for who reads this
case $MPI_NAME in
openmpi)
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    options='--oversubscribe --bind-to none --mca mpi_yield_when_idle 1'
    library='Open MPI'
    ;;
mpich) options='' library=MPICH ;;
*) options='' library=MPI ;;
esac

# launched PROCESSES COMMAND ARGUMENT...
launched() {
    launched_count=$1
    shift
    # shellcheck disable=SC2086 # one word an argument
    timeout -k 5 120 $MPIEXEC $options -n "$launched_count" "$@"
}

# alone ARGUMENT..., on PROCESSES ARGUMENT...: train in one process without a launcher, or
# in several, with the arguments of $cli_tiny.
alone() {
    # shellcheck disable=SC2086,SC2154 # one word an argument, from lib.sh
    "$program" $cli_tiny "$@"
}
on() {
    on_count=$1
    shift
    # shellcheck disable=SC2086 # one word an argument
    launched "$on_count" "$program" $cli_tiny "$@"
}

# sum_of COMMAND...: the digest that it prints.
sum_of() {
    "$@" --digest 2>../err | sed -n 's/^digest sha256://p'
}

# losses LOG: what its lines say that no clock does, each step once.
losses() {
    sed 's/, "seconds.*//' "$1" | sort -u
}

# said HOW_OFTEN PATTERN: so many lines of standard error are like this.
said() {
    cli_checks=$((cli_checks + 1))
    # shellcheck disable=SC2154 # who reads this says it
    [ "$(grep -c -e "$2" ../err)" = "$1" ] ||
        fail "$cli_what" "$1 times: $2" "$(cat ../err)"
}

# ---- a job in the background ------------------------------------------------

# member starts a program as process $rank of the job, in a file by its number, to be
# killed at $KILL_POINT where it is $KILL_RANK and the file of $KILL_ONCE is not there yet.
# shellcheck disable=SC2154 # from lib.sh
PIDS=$cli_scratch/pids KILL_RANK='' KILL_POINT='' KILL_ONCE=''
export PIDS KILL_RANK KILL_POINT KILL_ONCE
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

# start PROCESSES ARGUMENT...: pipetrain, to ../out and ../err; $launcher is then the
# launcher. What killed processes leave in memory goes away with the folder of this test.
start() {
    start_count=$1
    shift
    OMPI_MCA_btl_vader_backing_directory=$cli_scratch TMPDIR=$cli_scratch
    export OMPI_MCA_btl_vader_backing_directory TMPDIR
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
# long; $took is how long it took, and $longest the most of all calls.
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
    # shellcheck disable=SC2034 # for who calls this
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
