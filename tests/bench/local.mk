# SPDX-License-Identifier: BSD-3-Clause
# tests/bench - measures and prints; never passes or fails.

benches = \
	%D%/bench_pipeline
EXTRA_PROGRAMS += $(benches)
CLEANFILES += $(benches)
bench_libs = tools/libtools.la libpenstock-model.la libpenstock.la

%C%_bench_pipeline_LDADD = $(bench_libs)

bench: $(benches)
	@for program in $(benches); do \
	    echo "$$program"; OPENBLAS_NUM_THREADS=1 ./$$program || exit 1; \
	done
