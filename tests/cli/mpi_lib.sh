# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# mpi_lib.sh - for tests that start processes with the launcher of the MPI that configure
# found; read after lib.sh, and left with 77 where there is none.
#
# Sets: library    "Open MPI", "MPICH"
#       options    of the launcher
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
