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
	%D%/careful_json.c \
	%D%/check.c \
	%D%/check_capacity.c \
	%D%/check_steps.c \
	%D%/csv_meta_json.c \
	%D%/deadlock.c \
	%D%/env.c \
	%D%/error.c \
	%D%/evict.c \
	%D%/file.c \
	%D%/flight.c \
	%D%/gen_bpipe.c \
	%D%/gen_chimera.c \
	%D%/gen_dualpipe.c \
	%D%/gen_eager_one_f_one_b.c \
	%D%/gen_forward_only.c \
	%D%/gen_gis.c \
	%D%/gen_gpipe.c \
	%D%/gen_hanayo.c \
	%D%/gen_interleaved.c \
	%D%/gen_interleaved_zb.c \
	%D%/gen_looped_bfs.c \
	%D%/gen_one_f_one_b.c \
	%D%/gen_pipedream.c \
	%D%/gen_seq_one_f_one_b.c \
	%D%/gen_v_auto.c \
	%D%/gen_zb_auto.c \
	%D%/gen_zb_hand.c \
	%D%/gen_zb_v.c \
	%D%/greedy.c \
	%D%/lower.c \
	%D%/network.c \
	%D%/ops.c \
	%D%/os.c \
	%D%/pull.c \
	%D%/registry.c \
	%D%/replicate.c \
	%D%/report_json.c \
	%D%/schedule.c \
	%D%/schedule_csv.c \
	%D%/simulate.c \
	%D%/tags.c \
	%D%/version.c \
	%D%/versions.c \
	%D%/weave.c \
	%D%/careful_json.h \
	%D%/check_state.h \
	%D%/csv_meta.h \
	%D%/deadlock.h \
	%D%/flight.h \
	%D%/generator.h \
	%D%/greedy.h \
	%D%/looped.h \
	%D%/lower_in_time.h \
	%D%/network.h \
	%D%/os.h \
	%D%/pull.h \
	%D%/row.h \
	%D%/weave.h
%C%_libsched_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_libsched_la_LIBADD = $(JANSSON_LIBS)
