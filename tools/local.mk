# SPDX-License-Identifier: BSD-3-Clause
# tools/ - the two programs; they use installed headers only.

noinst_LTLIBRARIES += %D%/libtools.la
%C%_libtools_la_SOURCES = \
	%D%/binding.c \
	%D%/costs.c \
	%D%/draw_cairo.c \
	%D%/draw_text.c \
	%D%/history.c \
	%D%/launch.c \
	%D%/options.c \
	%D%/options_tell.c \
	%D%/perfetto.c \
	%D%/say.c \
	%D%/scene.c \
	%D%/source.c \
	%D%/binding.h \
	%D%/costs.h \
	%D%/draw_cairo.h \
	%D%/draw_text.h \
	%D%/hash.h \
	%D%/history.h \
	%D%/launch.h \
	%D%/options.h \
	%D%/perfetto.h \
	%D%/say.h \
	%D%/scene.h \
	%D%/source.h
%C%_libtools_la_CPPFLAGS = $(AM_CPPFLAGS) $(CAIRO_CFLAGS)
%C%_libtools_la_LIBADD = libpenstock.la $(CAIRO_LIBS) $(DL_LIBS)

bin_PROGRAMS += pipesim
pipesim_SOURCES = \
	%D%/pipesim.c \
	%D%/pipesim_check.c \
	%D%/pipesim_draw.c \
	%D%/pipesim_export.c \
	%D%/pipesim_list.c \
	%D%/pipesim_place.c \
	%D%/pipesim_stats.c \
	%D%/pipesim.h
pipesim_CPPFLAGS = $(AM_CPPFLAGS)
pipesim_LDADD = %D%/libtools.la libpenstock.la

bin_PROGRAMS += pipetrain
pipetrain_SOURCES = \
	%D%/crash.c \
	%D%/host_list.c \
	%D%/pipetrain.c \
	%D%/pipetrain_reference.c \
	%D%/pipetrain_self_test.c \
	%D%/pipetrain_train.c \
	%D%/processes.c \
	%D%/progress.c \
	%D%/supervise.c \
	%D%/train_log.c \
	%D%/train_faults.c \
	%D%/train_picture.c \
	%D%/crash.h \
	%D%/host_list.h \
	%D%/pipetrain.h \
	%D%/processes.h \
	%D%/progress.h \
	%D%/supervise.h \
	%D%/train_faults.h \
	%D%/train_log.h \
	%D%/train_picture.h
pipetrain_CPPFLAGS = $(AM_CPPFLAGS)
pipetrain_LDADD = %D%/libtools.la libpenstock-model.la libpenstock.la
