# SPDX-License-Identifier: BSD-3-Clause
# tests/stages - one program a source file of stages/.

stages_test_libs = tests/libtestmain.la stages/libstages.la sched/libsched.la $(CHECK_LIBS)

# Stages whose results are known, for the programs that run pipelines.
check_LTLIBRARIES += %D%/libtoy.la
%C%_libtoy_la_SOURCES = %D%/toy.c %D%/toy.h
%C%_libtoy_la_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)

# Processes that are threads, for programs of several processes.
check_LTLIBRARIES += %D%/libloopback.la
%C%_libloopback_la_SOURCES = %D%/loopback.c %D%/loopback.h

check_PROGRAMS += %D%/test_bind
%C%_test_bind_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(HWLOC_CFLAGS)
%C%_test_bind_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_bind

check_PROGRAMS += %D%/test_budget
%C%_test_budget_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_budget_LDADD = $(stages_test_libs)
TESTS += %D%/test_budget

check_PROGRAMS += %D%/test_channel
%C%_test_channel_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_channel_LDADD = $(stages_test_libs)
TESTS += %D%/test_channel

check_PROGRAMS += %D%/test_crossing
%C%_test_crossing_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_crossing_LDADD = %D%/libtoy.la %D%/libloopback.la $(stages_test_libs)
TESTS += %D%/test_crossing

# The explorer, and the shipped sources compiled for it: never with a sanitizer, which
# would not know its coroutines, nor counted as covered.
if THREAD_SANITIZER
explore_libs =
else
explore_libs = %D%/libexplored.la %D%/libexplore.la
explore_flags = $(STANDARD_FLAGS) $(WARNING_FLAGS) $(VISIBILITY_FLAGS)
check_LTLIBRARIES += $(explore_libs)
%C%_libexplore_la_SOURCES = \
	%D%/explore/memory.c \
	%D%/explore/race.c \
	%D%/explore/search.c \
	%D%/explore/explore.h \
	%D%/explore/machine.h
%C%_libexplore_la_CFLAGS = $(explore_flags)
%C%_libexplored_la_SOURCES = \
	%D%/explore/litmus.c \
	%D%/explore/scenarios_pipeline.c \
	%D%/explore/scenarios_ring.c \
	%D%/explore/scenarios_stream.c \
	%D%/explore/scenarios_team.c \
	%D%/explore/shipped.c \
	%D%/explore/atomic.h \
	%D%/explore/litmus.h \
	%D%/explore/scenarios.h
%C%_libexplored_la_CFLAGS = $(explore_flags) $(ACCESS_FLAGS)
%C%_test_explore_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=memcpy,--wrap=memset
endif
check_PROGRAMS += %D%/test_explore
%C%_test_explore_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_explore_LDADD = $(explore_libs) $(stages_test_libs)
TESTS += %D%/test_explore

check_PROGRAMS += %D%/test_fault
%C%_test_fault_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_fault_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_fault

check_PROGRAMS += %D%/test_footprint
%C%_test_footprint_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_footprint_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_footprint

check_PROGRAMS += %D%/test_loopback
%C%_test_loopback_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_loopback_LDADD = %D%/libloopback.la $(stages_test_libs)
TESTS += %D%/test_loopback

check_PROGRAMS += %D%/test_messages
%C%_test_messages_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_messages_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_messages

check_PROGRAMS += %D%/test_mutants
%C%_test_mutants_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_mutants_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_mutants

check_PROGRAMS += %D%/test_pipeline
%C%_test_pipeline_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_pipeline_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_pipeline

check_PROGRAMS += %D%/test_program
%C%_test_program_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_program_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_program

check_PROGRAMS += %D%/test_ring
%C%_test_ring_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_ring_LDADD = $(stages_test_libs)
TESTS += %D%/test_ring

check_PROGRAMS += %D%/test_run
%C%_test_run_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_run_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_run

check_PROGRAMS += %D%/test_steady
%C%_test_steady_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_steady_LDADD = $(stages_test_libs)
TESTS += %D%/test_steady

# Runs a list and nothing else, for tests/cli/steady.sh.
check_PROGRAMS += %D%/steady
%C%_steady_LDADD = stages/libstages.la sched/libsched.la

check_PROGRAMS += %D%/test_stream
%C%_test_stream_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_stream_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_stream

check_PROGRAMS += %D%/test_task
%C%_test_task_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_task_LDADD = $(stages_test_libs)
TESTS += %D%/test_task

check_PROGRAMS += %D%/test_team
%C%_test_team_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_team_LDADD = %D%/libtoy.la $(stages_test_libs)
TESTS += %D%/test_team

check_PROGRAMS += %D%/test_thread
%C%_test_thread_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_thread_LDADD = $(stages_test_libs)
TESTS += %D%/test_thread

check_PROGRAMS += %D%/test_tie
%C%_test_tie_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_tie_LDADD = %D%/libloopback.la $(stages_test_libs)
TESTS += %D%/test_tie

check_PROGRAMS += %D%/test_topology
%C%_test_topology_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
%C%_test_topology_LDADD = $(stages_test_libs)
TESTS += %D%/test_topology

# Run under a launcher of MPI, for tests/cli/mpi_transport.sh and mpi_cases.sh. As users
# would link them.
if HAVE_MPI
check_PROGRAMS += %D%/mpi_transport %D%/mpi_pipeline
%C%_mpi_transport_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
%C%_mpi_transport_LDADD = $(mpi_library) libpenstock.la $(MPI_LIBS)
%C%_mpi_pipeline_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
%C%_mpi_pipeline_LDADD = $(mpi_library) libpenstock.la $(MPI_LIBS)
endif
