#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi_cases.sh - what has gone wrong for people with other pipelines over MPI: messages of
# any size, counters that grow, places, processes that were told different things, and
# checkpoints of which a part is missing.
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
stages=$(cd "${top_builddir:-.}" && pwd)/tests/stages
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"
make_text 200 >text

# two ARGUMENTS ARGUMENTS [ARGUMENT...]: two processes, each with its own arguments, and
# with those that both have.
two() {
    two_first=$1 two_second=$2
    shift 2
    # shellcheck disable=SC2086 # one word an argument
    timeout -k 5 60 $MPIEXEC $options -n 1 "$program" $cli_tiny "$@" $two_first : \
        -n 1 "$program" $cli_tiny "$@" $two_second
}

# ---- messages of any size ---------------------------------------------------

# A send may end before its receive begins up to some size only. Neighbours send to each
# other in all of these, and the sizes are around the limits.
sizes=1,7,1000,1024,4000,4095,4096,4097,65535,65537,1048576,3145729
exchange() { # KIND RANKS CHUNKS PROCESSES
    expect 0 "~$1 of $sizes bytes, 2 steps, * tags: as it should be" - \
        launched "$4" "$stages/mpi_pipeline" "$1" "$2" "$3" 4 $sizes 2 0
}
exchange interleaved 2 2 2
exchange dualpipe 2 2 2
expect 0 '~1f1b of 67108864 bytes, 1 steps, * tags: as it should be' - \
    launched 2 "$stages/mpi_pipeline" 1f1b 2 1 2 67108864 1 0
for limit in 256 4096; do
    OMPI_MCA_btl_vader_eager_limit=$limit OMPI_MCA_btl_self_eager_limit=$limit
    OMPI_MCA_btl_tcp_eager_limit=$limit UCX_RNDV_THRESH=$limit
    MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE=$limit MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE=$limit
    export OMPI_MCA_btl_vader_eager_limit OMPI_MCA_btl_self_eager_limit \
        OMPI_MCA_btl_tcp_eager_limit UCX_RNDV_THRESH MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE \
        MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE
    exchange 1f1b 4 1 2
    exchange zb-v 2 2 2
done
for width in 32 128; do
    set -- --stages 4 --width $width --steps 2
    same "activations of $((width * 64)) bytes" "$(sum_of alone "$@")" \
        "$(sum_of on 3 "$@")"
done
set -- --stages 2 --layers 2 --width 256 --context 128 --batch 16 --microbatches 2 --steps 1
same 'activations of 1 MiB' "$(sum_of alone "$@")" "$(sum_of on 2 "$@")"
unset OMPI_MCA_btl_vader_eager_limit OMPI_MCA_btl_self_eager_limit \
    OMPI_MCA_btl_tcp_eager_limit UCX_RNDV_THRESH MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE \
    MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE

# ---- counters ---------------------------------------------------------------

# As few tags as MPI may have, and iterations beyond 2^31.
PENSTOCK_MPI_TAG_UB=32767
export PENSTOCK_MPI_TAG_UB
expect 0 'gpipe of 8 bytes, 10000 steps, 32768 tags: as it should be' - \
    launched 2 "$stages/mpi_pipeline" gpipe 4 1 8 8 10000 2147483638
expect 0 '1f1b of 8 bytes, 300 steps, 32768 tags: as it should be' - \
    launched 4 "$stages/mpi_pipeline" 1f1b 4 1 8 8 300 2147483638
unset PENSTOCK_MPI_TAG_UB

# ---- places -----------------------------------------------------------------

# bound COMMAND...: the CPUs that its ranks are bound to, in order.
bound() {
    "$@" --steps 0 --report-binding 2>../err |
        sed -n 's/^process .*, rank [0-9]*: .* bound to CPU \([0-9-]*\).*/\1/p' | tr '\n' ' '
}
first=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
last=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]\([0-9]*\)$/\1/p' /proc/self/status)
if [ "$first" = "$last" ] || ! taskset -c "$last" true 2>/dev/null; then
    skip 'places, since there is one CPU only'
else
    case $MPI_NAME in
    openmpi) given='|--bind-to none|--bind-to core' ;;
    *) given='|-bind-to none|-bind-to core' ;;
    esac
    before=$options
    IFS='|'
    for options in $given; do
        unset IFS
        cpus=$(bound on 2)
        same "two ranks, '$options'" 2 "$(echo "$cpus" | wc -w | tr -d ' ')"
        differ "two ranks, '$options'" "${cpus%% *}" "$(echo "$cpus" | cut -d ' ' -f 2)"
    done
    unset IFS
    options=$before
    OMP_PROC_BIND=true OMP_PLACES=cores
    export OMP_PROC_BIND OMP_PLACES
    cpus=$(bound on 2)
    differ 'two ranks, OMP_PROC_BIND' "${cpus%% *}" "$(echo "$cpus" | cut -d ' ' -f 2)"
    unset OMP_PROC_BIND OMP_PLACES

    # each_on CPU CPU: where a launcher puts the processes, as taskset does here.
    # shellcheck disable=SC2317 # called by bound
    each_on() {
        # shellcheck disable=SC2086 # one word an argument
        timeout -k 5 60 $MPIEXEC $options -n 1 taskset -c "$1" "$program" $cli_tiny \
            --steps 0 --report-binding : -n 1 taskset -c "$2" "$program" $cli_tiny \
            --steps 0 --report-binding 2>../err
    }
    same 'a CPU each' "$last $first " "$(bound each_on "$last" "$first")"
    cli_what='a CPU each: no warning'
    said 0 warning
    same 'one CPU for both' "$last $last " "$(bound each_on "$last" "$last")"
    cli_what='one CPU for both'
    said 1 "^pipetrain: warning: 2 ranks in 2 processes share CPU $last of this host, since they were given no other; a launcher that gives each process its own, or all of them, would do\$"
    same 'a part of the same' '' "$(bound each_on "$last" "$first,$last")"
    cli_what='a part of the same'
    said 2 "another process may use a part of this one's CPUs, so workers are left to the system; a launcher that gives each process its own, or all the same, would do\$"
fi

# ---- told different things --------------------------------------------------

# differs WHAT OTHER TEXT TEXT [ARGUMENT...]: process 0 and 1 are told this, and are
# refused by these words. All end, and one says it.
differs() {
    cli_what="'$1' and '$2'" differs_0=$3 differs_1=$4
    two "$1" "$2" >../out 2>../err </dev/null && fail "$cli_what" failure success
    said 1 "^pipetrain: process 0 on .* has $differs_0, and process 1 on .* $differs_1; the same on all would work\$"
}
differs '' '--steps 3' '--steps 20' '--steps 3'
differs '--lr 0.1' '--lr 0.10000001' '--lr 0.1' '--lr 0.10000001'
differs '--checkpoint here --resume' '--checkpoint here' '--resume' 'no --resume'
differs '--schedule gpipe' '' '--schedule gpipe' '--schedule 1f1b'
differs '' '--prompt ab' '--prompt \\012' '--prompt ab'
differs '' '--digest' 'no --digest' '--digest'
differs '' '--seed 18446744073709551615' '--seed 1' '--seed 18446744073709551615'
sed 's/is more/are more/' text >other
differs '' '--data other' 'a text of [0-9]* bytes, with hash [0-9a-f]*' \
    'a text of [0-9]* bytes, with hash [0-9a-f]*'
mkdir one other_one
pipesim export 1f1b -p 2 -m 4 >one/list.csv
pipesim export gpipe -p 2 -m 4 >other_one/list.csv
cp text one
cp text other_one
cli_what='other lists behind one name'
# shellcheck disable=SC2086 # one word an argument
timeout -k 5 60 $MPIEXEC $options -n 1 sh -c 'cd one && exec "$@"' sh "$program" \
    $cli_tiny --schedule list.csv : -n 1 sh -c 'cd other_one && exec "$@"' sh \
    "$program" $cli_tiny --schedule list.csv >../out 2>../err </dev/null
said 1 '^pipetrain: process 0 on .* has a schedule of 2 stages on 2 ranks and 4 microbatches, hash [0-9a-f]*, and process 1 on .* a schedule of 2 stages on 2 ranks and 4 microbatches, hash [0-9a-f]*; the same on all would work$'
cp text same_text
same 'what may differ' "$(sum_of alone)" \
    "$(sum_of two '--data same_text --log log --bind none' '--data text --watchdog 10')"

# ---- one process only, or several -------------------------------------------

cli_what='--check-reference in several processes'
launched 2 "$program" --check-reference nothing >../out 2>../err &&
    fail "$cli_what" failure success
said 1 "^pipetrain: --check-reference compares in one process, and $library's mpi[a-z]* has started 2; the same without it would work\$"

expect 0 'pipetrain runs alone: no launcher of MPI has started it with others.' '' \
    "$program" --self-test
expect 0 - - launched 1 "$program" --self-test
expect 0 - - launched 2 "$program" --self-test
for line in "2 processes, by $library .*" 'process 1 on .*: Penstock .* kernels; OpenBLAS .* kernels' \
    ' *0 *1 [0-9. ]*' ' *1 *0 [0-9. ]*' '--latency [0-9.e+-]* --bandwidth [0-9.e+-]*'; do
    true_that "--self-test: $line" grep -qx -e "$line" ../out
done
true_that '--self-test: for pipesim' sh -c 'pipesim stats 1f1b -p 2 -m 4 '"$(grep -e ^--latency ../out)"

# ---- checkpoints ------------------------------------------------------------

# Dropout, warm-up and the order of the data go on where they were, in the middle of an
# epoch too, on other stages and processes.
set -- --steps 40 --dropout 0.1 --warmup 20
whole=$(sum_of alone "$@" --stages 1 --log whole.log --checkpoint whole)
losses whole.log >whole.losses
# stopped STEP PROCESSES PROCESSES [ARGUMENT...]: then on so many.
stopped() {
    stop=$1 before=$2 after=$3
    shift 3
    cli_what="stopped after $stop of 40 steps on $before processes, then on $after"
    rm -rf saved again.log
    on "$before" "$@" --stages "$before" --checkpoint saved --stop-at "$stop" \
        --log again.log >/dev/null 2>&1
    same "$cli_what: the weights" "$whole" "$(sum_of on "$after" "$@" \
        --stages "$after" --checkpoint saved --resume --log again.log)"
    losses again.log >again.losses
    true_that "$cli_what: the losses" cmp whole.losses again.losses
}
stopped 1 4 4 "$@"
stopped 7 2 2 "$@"
stopped 39 1 4 "$@"
stopped 20 4 1 "$@"
for file in model optimizer; do
    true_that "$cli_what: $file" cmp "whole/step-00000040/$file.safetensors" \
        "saved/step-00000040/$file.safetensors"
done

set -- --stages 4 --steps 8 --dropout 0.1 --warmup 6
whole=$(sum_of alone "$@")
on 3 "$@" --checkpoint torn --checkpoint-every 2 --stop-at 6 >/dev/null 2>&1
rm torn/step-00000006/model-00001-of-00003.safetensors
same 'a part is missing: the one before it' "$whole" \
    "$(sum_of on 3 "$@" --checkpoint torn --resume)"
cli_what='a part is missing'
said 1 '^pipetrain: warning: torn/step-00000006/model-00001-of-00003.safetensors: it was written by process 0 on .* and no process of this run sees it; .* the one before it is tried$'

# full.sh FOLDER LAUNCHER...: two processes save into a file system that has room for one
# checkpoint and no second.
cat >full.sh <<'END'
mount -t tmpfs -o size=300k none full || exit
cp -R "$1/step-00000010" full
shift
"$@"
status=$?
rm -rf kept && cp -R full kept
exit $status
END
mkdir full
if unshare -rm mount -t tmpfs none full 2>/dev/null; then
    cli_what='a full disk'
    on 2 --stages 2 --checkpoint room --stop-at 10 >/dev/null 2>&1
    whole=$(sum_of alone)
    # shellcheck disable=SC2086 # one word an argument
    unshare -rm sh full.sh room timeout -k 5 60 $MPIEXEC $options -n 2 "$program" \
        $cli_tiny --stages 2 --checkpoint full --resume >../out 2>../err
    differ "$cli_what: exit status" 0 $?
    said 1 '^pipetrain: process [01] on .*: full/step-00000020.tmp/.*: No space left on device'
    said 0 MPI_A
    same "$cli_what: what is left" step-00000010 "$(ls kept)"
    same "$cli_what: what is left goes on" "$whole" \
        "$(sum_of on 2 --stages 2 --checkpoint kept --resume)"
else
    skip 'a full disk, since no file system can be mounted here'
fi

# ---- a process that crashes -------------------------------------------------

# crash WHERE TEXT ARGUMENT...: in step 5, after the checkpoint of step 2.
crash() {
    cli_what="a crash in $1"
    fault=$1 text=$2
    shift 2
    rm -rf saved log
    # shellcheck disable=SC2086 # one word an argument
    start 4 $cli_tiny "$@" --checkpoint saved --checkpoint-every 2 --log log \
        --fault "$fault,step=5"
    until_steps 4
    all_gone 50
    differ "$cli_what: exit status" 0 "$status"
    said 1 "^pipetrain: $text, on rank 2, in step 5\$"
    # MPICH's launcher ends the others before they can say it.
    [ "$MPI_NAME" != openmpi ] || {
        said 1 '^pipetrain: process 2 on .* is gone: it was killed or crashed$'
        said 1 '^pipetrain: process [0-9] on .* waited for process 2 on .*, with rank 2$'
    }
    same "$cli_what: what is saved" "$whole" "$(sum_of alone "$@" --checkpoint saved --resume)"
}
whole=$(sum_of alone --stages 4)
crash stage=2,mb=1,op=F,kind=segv \
    'SIGSEGV (invalid memory access) in stage 2, microbatch 1, forward' --stages 4
set -- --stages 2 --data-parallel 2
whole=$(sum_of alone "$@")
crash stage=1,op=reduce,kind=abort 'SIGABRT (abort) in stage 1, reduce' "$@"

# ---- the library for this launcher ------------------------------------------

# as_if VARIABLES TEXT: started with these by hand, it is refused by this.
as_if() {
    # shellcheck disable=SC2086 # one word an argument
    expect 1 '' "pipetrain: $2" env $1 "$program" --data text
}
case $library in
'Open MPI') started='OMPI_COMM_WORLD_SIZE=2' by="Open MPI's mpirun" wrapper=mpicc.openmpi ;;
*) started='PMI_SIZE=2' by="MPICH's mpiexec" wrapper=mpicc.mpich ;;
esac
case $library in
'Open MPI')
    other='MPICH' other_started='PMI_SIZE=2' other_by="MPICH's mpiexec"
    other_wrapper=mpicc.mpich other_name=mpich name=openmpi
    ;;
*)
    other='Open MPI' other_started='OMPI_COMM_WORLD_SIZE=2' other_by="Open MPI's mpirun"
    other_wrapper=mpicc.openmpi other_name=openmpi name=mpich
    ;;
esac
folder=$(dirname "$program")
[ ! -e "$folder/.libs/pipetrain" ] || folder=$folder/.libs
as_if "$started PENSTOCK_MPI_LIBRARY=nothing.so" \
    'PENSTOCK_MPI_LIBRARY=nothing.so: nothing.so: cannot open shared object file: No such file or directory'
as_if "$started PENSTOCK_MPI_LIBRARY=libm.so.6" \
    "PENSTOCK_MPI_LIBRARY is no transport of Penstock's; libpenstock-mpi-*.so would work"
expect 1 '' "~pipetrain: started by $other_by, but the transport that was loaded is for $library*; one for $other would work" \
    env "$other_started" PENSTOCK_MPI_LIBRARY="$folder/libpenstock-mpi-$name.so.0" \
    "$program" --data text
# Other transports may be installed, so where the loader looks first are files of these names
# that are no libraries.
bare() { # VARIABLE TEXT: as_if, with a program that stands beside no transport
    expect 1 '' "~pipetrain: $2" env "$1" OPENBLAS_NUM_THREADS=1 \
        LD_LIBRARY_PATH="$(cd ../bare && pwd):$folder" ../bare/pipetrain --data text
}
mkdir ../bare
cp "$folder/pipetrain" ../bare
echo none >"../bare/libpenstock-mpi-$other_name.so.0"
bare "$other_started" \
    "started by $other_by, but only the $library transport is installed: $by would work, or configure with MPICC=$other_wrapper"
echo none >"../bare/libpenstock-mpi-$name.so.0"
bare "$started" \
    "started by $by, but there is no transport for $library (*); configure with MPICC=$wrapper, or PENSTOCK_MPI_LIBRARY=FILE, would work"

finish
