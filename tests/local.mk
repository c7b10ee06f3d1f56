# SPDX-License-Identifier: BSD-3-Clause
# tests/ - everything that `make check` runs.

AM_TESTS_ENVIRONMENT = OPENBLAS_NUM_THREADS=1; export OPENBLAS_NUM_THREADS; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	CC='$(CC)'; export CC; NM='$(NM)'; export NM; \
	MPI_NAME='$(MPI_NAME)'; export MPI_NAME; MPIEXEC='$(MPIEXEC)'; export MPIEXEC; \
	TEST_FLAGS='$(SANITIZER_FLAGS) $(COVERAGE_FLAGS)'; export TEST_FLAGS;
TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(SHELL)

if HAVE_CHECK

# Every test program has the same main() and its own pst_test_suite().
check_LTLIBRARIES += %D%/libtestmain.la
%C%_libtestmain_la_SOURCES = %D%/main.c %D%/suite.h

include tests/sched/local.mk
include tests/stages/local.mk
include tests/model/local.mk

else

check-local:
	@echo 'make check needs the library Check (Debian: check); then run configure again' >&2
	@exit 1

endif

include tests/bench/local.mk

dist_check_SCRIPTS += %D%/house.sh %D%/install.sh %D%/count.sh %D%/valgrind.sh
EXTRA_DIST += %D%/tsan.supp %D%/data %D%/reference
TESTS += %D%/house.sh %D%/install.sh
include tests/cli/local.mk

# The examples against what `make install` has put into place.
installcheck-local:
	$(AM_TESTS_ENVIRONMENT) srcdir='$(srcdir)'; export srcdir; \
	DESTDIR='$(DESTDIR)'; export DESTDIR; \
	$(SHELL) $(srcdir)/tests/install.sh --installed

# Before a release: about half an hour.
.PHONY: check-kills
check-kills:
	PENSTOCK_KILLS=1000 $(MAKE) $(AM_MAKEFLAGS) check check_PROGRAMS= \
		check_LTLIBRARIES= TESTS=tests/cli/mpi_kill.sh
	cat tests/cli/mpi_kill.log

.PHONY: check-valgrind
check-valgrind:
	srcdir='$(srcdir)' $(SHELL) $(srcdir)/tests/valgrind.sh
