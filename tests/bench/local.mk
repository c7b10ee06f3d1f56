# SPDX-License-Identifier: BSD-3-Clause
# tests/bench - measures and prints; never passes or fails.

benches = \
	%D%/bench_pipeline \
	%D%/bench_schedule \
	%D%/bench_stream
if HAVE_MPI
benches += %D%/bench_network
endif
EXTRA_PROGRAMS += $(benches)
CLEANFILES += $(benches)
bench_libs = tools/libtools.la libpenstock-model.la libpenstock.la

%C%_bench_pipeline_LDADD = $(bench_libs)

%C%_bench_schedule_LDADD = libpenstock.la -lm

# Over processes: by hand, under a launcher of MPI; tests/cli/two_hosts.sh says how on
# one machine.
%C%_bench_network_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
%C%_bench_network_LDADD = $(mpi_library) libpenstock.la $(MPI_LIBS) -lm

# Its hops use what the library does not export.
%C%_bench_stream_LDADD = stages/libstages.la sched/libsched.la

# Other programs' streams, compiled and run where they are installed.
dist_check_SCRIPTS = %D%/peers.sh

# What a CPU quota leaves; by hand, as root: sh tests/bench/quota.sh
dist_check_SCRIPTS += %D%/quota.sh
EXTRA_DIST += %D%/peer_tbb.cc %D%/peer_starpu.c

benches: $(benches)

bench: $(benches)
	@for program in $(benches); do \
	    echo "$$program"; OPENBLAS_NUM_THREADS=1 ./$$program || exit 1; \
	done
	@CC='$(CC)' PKG_CONFIG='$(PKG_CONFIG)' $(SHELL) $(srcdir)/%D%/peers.sh
