# SPDX-License-Identifier: BSD-3-Clause
# stages/ - the runtime; uses sched/.

pkginclude_HEADERS += \
	%D%/fault.h \
	%D%/finite.h \
	%D%/stage.h \
	%D%/task.h \
	%D%/trace.h \
	%D%/transport.h \
	%D%/pipeline.h \
	%D%/stream.h \
	%D%/mpi.h \
	%D%/team.h

noinst_LTLIBRARIES += %D%/libstages.la
%C%_libstages_la_SOURCES = \
	%D%/arena.c \
	%D%/bind.c \
	%D%/budget.c \
	%D%/channel.c \
	%D%/crew.c \
	%D%/crossing.c \
	%D%/dump.c \
	%D%/fault.c \
	%D%/fault_text.c \
	%D%/finite.c \
	%D%/flow.c \
	%D%/footprint.c \
	%D%/footprint_moves.c \
	%D%/hosts.c \
	%D%/latch.c \
	%D%/links.c \
	%D%/pipeline.c \
	%D%/place.c \
	%D%/program.c \
	%D%/ring.c \
	%D%/run.c \
	%D%/settle.c \
	%D%/slots.c \
	%D%/stream.c \
	%D%/stream_worker.c \
	%D%/task.c \
	%D%/team.c \
	%D%/thread.c \
	%D%/tie.c \
	%D%/tie_remote.c \
	%D%/topology.c \
	%D%/trace.c \
	%D%/transport.c \
	%D%/worker.c \
	%D%/arena.h \
	%D%/atomic.h \
	%D%/atomic_valgrind.h \
	%D%/bind.h \
	%D%/budget.h \
	%D%/channel.h \
	%D%/crew.h \
	%D%/crossing.h \
	%D%/doorbell.h \
	%D%/engine.h \
	%D%/flow.h \
	%D%/footprint.h \
	%D%/footprint_walk.h \
	%D%/hosts.h \
	%D%/latch.h \
	%D%/links.h \
	%D%/place.h \
	%D%/program.h \
	%D%/ring.h \
	%D%/run.h \
	%D%/settle.h \
	%D%/slots.h \
	%D%/stream_engine.h \
	%D%/team_members.h \
	%D%/thread.h \
	%D%/tie.h \
	%D%/topology.h \
	%D%/worker.h
%C%_libstages_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
%C%_libstages_la_LIBADD = $(HWLOC_LIBS)

# The transport over MPI; thread.c is no part of libpenstock's interface.
if HAVE_MPI
noinst_LTLIBRARIES += %D%/libtransport_mpi.la
%C%_libtransport_mpi_la_SOURCES = \
	%D%/thread.c \
	%D%/transport_mpi.c \
	%D%/transport_mpi_control.c \
	%D%/transport_mpi_open.c \
	%D%/transport_mpi_transfers.c \
	%D%/transport_mpi_watch.c \
	%D%/transport_mpi.h
%C%_libtransport_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
endif
