#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi_transport.sh - the MPI transport between processes that the launcher of the MPI
# found by configure starts here: what should work, and what all of them say when not.
#
# PENSTOCK_MPI_LARGE=1 sends a message of more than 2 GiB too, which needs 5 GiB.
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
tester=$(cd "${top_builddir:-.}" && pwd)/tests/stages/mpi_transport
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"

# launch PROCESSES ARGUMENT...
launch() {
    launch_count=$1
    shift
    launched "$launch_count" "$tester" "$@"
}

# all_say PROCESSES TEXT: each has printed "N: TEXT", TEXT a pattern of grep.
all_say() {
    all_say_count=0
    while [ "$all_say_count" -lt "$1" ]; do
        cli_checks=$((cli_checks + 1))
        grep -qx -e "$all_say_count: $2" ../out ||
            fail "$cli_what: process $all_say_count" "$2" "$(cat ../out ../err)"
        all_say_count=$((all_say_count + 1))
    done
}

# ---- what should work -------------------------------------------------------

for threads in multiple serialized funneled; do
    PENSTOCK_MPI_THREADS=$threads
    export PENSTOCK_MPI_THREADS
    counts='2 4'
    [ $threads != multiple ] || counts='1 2 3 4'
    for processes in $counts; do
        expect 0 "~$library *, $processes processes, * tags: as it should be" - \
            launch "$processes"
    done
    PENSTOCK_MPI_TAG_UB=32767 PENSTOCK_MPI_CHUNK=300007 expect 0 \
        "~$library *, 2 processes, 32768 tags: as it should be" - launch 2
    cli_what="fail(), $threads"
    launch 3 fail >../out 2>../err
    all_say 3 'something has gone wrong on purpose'
done
unset PENSTOCK_MPI_THREADS
for level in serialized multiple; do
    expect 0 '~*: as it should be' - launch 2 started $level
done

# ---- what should not --------------------------------------------------------

cli_what='started with too little'
launch 2 started funneled >../out 2>../err
same "$cli_what" 2 "$(grep -c 'refused: the program has started MPI with MPI_THREAD_FUNNELED, where only its own thread may call MPI; MPI_Init_thread() with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE would work, or leaving the start to pst_mpi_open()$' ../out)"

cli_what='two versions'
# shellcheck disable=SC2086 # one word an argument
timeout -k 5 60 $MPIEXEC $options -n 1 "$tester" : -n 1 env TEST_VERSION=0.0.9 \
    "$tester" >../out 2>../err
same "$cli_what" 2 "$(grep -c 'refused: process 0 has Penstock .* (protocol 2), and process 1 Penstock 0.0.9 (protocol 2); the same version on all hosts would work' ../out)"

refused() { # NAME VALUE RULE
    cli_what="$1=$2"
    env "$1=$2" "$tester" >../out 2>../err
    same "$cli_what" "refused: $1=$2: $3" "$(cat ../out)"
}
refused PENSTOCK_MPI_THREADS none 'it is multiple, serialized or funneled'
refused PENSTOCK_HEARTBEAT soon 'it is a whole number from 0 to 1000000'
refused PENSTOCK_MPI_CHUNK 0 'it is a whole number from 1 to 1073741824'

cli_what='other room than is counted on'
launch 2 mismatch >../out 2>../err
all_say 2 'process 1 on .* has room for 30 bytes, and process 0 on .*, which sends to it by tag 3, counts on room for 20'

cli_what='closed too early'
launch 3 closing >../out 2>../err
for process in 0 2; do
    cli_checks=$((cli_checks + 1))
    grep -q "^$process: process 1 on .* has closed its end, and process [02] on .* still has messages to or from it$" ../out ||
        fail "$cli_what: process $process" '' "$(cat ../out ../err)"
done

# strike SIGNAL: to process 1 of 3 that wait for each other; `took` is how many seconds
# all of them then live on.
strike() {
    launch 3 wait >../out 2>../err &
    launcher=$!
    tries=0
    while [ "$(grep -c ' is process ' ../out)" -lt 3 ] && [ $tries -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    began=$(date +%s)
    kill -"$1" "$(sed -n 's/^1 is process //p' ../out)"
    wait $launcher
    sed -n 's/.* is process //p' ../out >processes
    while alive <processes; do
        took=$(($(date +%s) - began))
        [ $took -le 20 ] || {
            fail "$cli_what: processes live on"
            return
        }
        sleep 0.1
    done
    took=$(($(date +%s) - began))
}

# True: one of those that standard input lists is there, and not only its exit status.
alive() {
    while read -r process; do
        ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$process/status" || return 0
    done
    return 1
}
cli_what='a process that is killed'
strike KILL
cli_checks=$((cli_checks + 1))
[ $took -le 5 ] || fail "$cli_what" 'at most 5 s' "$took s"

cli_what='a process that is stopped'
PENSTOCK_HEARTBEAT=2
export PENSTOCK_HEARTBEAT
strike STOP
unset PENSTOCK_HEARTBEAT
for process in 0 2; do
    cli_checks=$((cli_checks + 1))
    grep -qx "$process: process 1 on .* has not been heard of for 2 s" ../out ||
        fail "$cli_what: process $process" '' "$(cat ../out ../err)"
done
cli_checks=$((cli_checks + 1))
[ $took -le 15 ] || fail "$cli_what" 'at most 15 s' "$took s"

if [ "${PENSTOCK_MPI_LARGE:-0}" = 1 ]; then
    expect 0 '~2147483656 bytes came, at most * MiB resident' - launch 2 large
fi

finish
