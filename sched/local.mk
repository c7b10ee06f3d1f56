# SPDX-License-Identifier: BSD-3-Clause
# sched/ - schedules as data; knows nothing of ours.

pkginclude_HEADERS += \
	%D%/api.h \
	%D%/error.h \
	%D%/env.h \
	%D%/file.h \
	%D%/schedule.h \
	%D%/registry.h \
	%D%/check.h \
	%D%/lower.h \
	%D%/simulate.h \
	%D%/schedule_csv.h \
	%D%/report_json.h

noinst_LTLIBRARIES += %D%/libsched.la
%C%_libsched_la_SOURCES = \
	%D%/check.c \
	%D%/deadlock.c \
	%D%/env.c \
	%D%/error.c \
	%D%/file.c \
	%D%/gen_gpipe.c \
	%D%/gen_one_f_one_b.c \
	%D%/lower.c \
	%D%/ops.c \
	%D%/os.c \
	%D%/registry.c \
	%D%/report_json.c \
	%D%/schedule.c \
	%D%/schedule_csv.c \
	%D%/simulate.c \
	%D%/version.c \
	%D%/deadlock.h \
	%D%/generator.h \
	%D%/lower_in_time.h \
	%D%/os.h
%C%_libsched_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_libsched_la_LIBADD = $(JANSSON_LIBS)
