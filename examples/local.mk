# SPDX-License-Identifier: BSD-3-Clause
# examples/ - programs for an installed Penstock; the build does not build them.

examplesdir = $(docdir)/examples
dist_examples_DATA = \
	%D%/Makefile \
	%D%/compress.c \
	%D%/three_stages.c
