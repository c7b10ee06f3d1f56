# SPDX-License-Identifier: BSD-3-Clause
# tests/cli - the two programs by their command lines.

# To be preloaded, so shared; libtool builds what is not to be installed as an archive.
check_LTLIBRARIES += %D%/fail_malloc.la
%C%_fail_malloc_la_SOURCES = %D%/fail_malloc.c
%C%_fail_malloc_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
%C%_fail_malloc_la_LIBADD = -ldl

EXTRA_DIST += %D%/lib.sh %D%/mpi_lib.sh
dist_check_SCRIPTS += \
	%D%/bad_csv.sh \
	%D%/bad_input.sh \
	%D%/binding.sh \
	%D%/data_parallel.sh \
	%D%/fault.sh \
	%D%/guide.sh \
	%D%/hosts_gone.sh \
	%D%/memory.sh \
	%D%/mpi.sh \
	%D%/mpi_cases.sh \
	%D%/mpi_hosts_gone.sh \
	%D%/mpi_kill.sh \
	%D%/mpi_transport.sh \
	%D%/options_documented.sh \
	%D%/pipesim.sh \
	%D%/pipetrain.sh \
	%D%/quota.sh \
	%D%/steady.sh \
	%D%/two_hosts.sh
TESTS += \
	%D%/bad_csv.sh \
	%D%/bad_input.sh \
	%D%/binding.sh \
	%D%/data_parallel.sh \
	%D%/fault.sh \
	%D%/guide.sh \
	%D%/hosts_gone.sh \
	%D%/memory.sh \
	%D%/mpi.sh \
	%D%/mpi_cases.sh \
	%D%/mpi_hosts_gone.sh \
	%D%/mpi_kill.sh \
	%D%/mpi_transport.sh \
	%D%/options_documented.sh \
	%D%/pipesim.sh \
	%D%/pipetrain.sh \
	%D%/quota.sh \
	%D%/steady.sh \
	%D%/two_hosts.sh
