#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# guide.sh - follows docs/running-on-several-hosts.md: its blocks that are marked "sh
# local", and "sh openmpi" or "sh mpich" as MPI was found by configure.
guide=$(cd "${srcdir:-.}/docs" && pwd)/running-on-several-hosts.md
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"

give_up() {
    skip "$1"
    exit 77
}
case $MPI_NAME in
openmpi) launcher=mpirun.openmpi ;;
*) launcher=mpiexec.mpich ;;
esac
command -v $launcher >/dev/null 2>&1 || give_up "there is no $launcher, Debian's name"
[ -e /usr/share/common-licenses/GPL-3 ] || give_up 'no text where Debian has one'

# More processes than cores, should there be one only.
OMPI_MCA_rmaps_base_oversubscribe=1
OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_mpi_yield_when_idle

# Block after block into files of their own.
awk -v mpi="$MPI_NAME" '
    /^```/ && inside { close(file); inside = 0; next }
    /^```sh / && ($2 == "local" || $2 == mpi) {
        file = sprintf("../block-%02d", ++blocks); inside = 1; next
    }
    inside { print > file }' "$guide"

digests=
for block in ../block-*; do
    expect 0 - - timeout -k 5 120 sh -eu "$block"
    digests="$digests $(sed -n 's/^digest //p' ../out)"
    grep -q 'runs alone' ../out && fail "$(cat "$block")" 'several processes' "$(cat ../out)"
done
only 'what the guide leaves' text.txt

# Alone, by MPI, two copies of the pipeline, resumed.
# shellcheck disable=SC2086 # one word a digest
set -- $digests
same 'digests' 4 $#
same 'the digest of two processes' "${1-}" "${2-}"
differ 'the digest of two copies' "${1-}" "${3-}"
same 'the digest of the resumed run' "${1-}" "${4-}"

finish
