# SPDX-License-Identifier: BSD-3-Clause
# tests/sched - one program a source file of sched/.

sched_test_libs = tests/libtestmain.la sched/libsched.la $(CHECK_LIBS)
EXTRA_DIST += %D%/simulated.h %D%/support.h

check_PROGRAMS += %D%/test_error
%C%_test_error_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_env
%C%_test_env_LDADD = $(sched_test_libs)

# test_file puts its own system calls in the place of sched/os.c's.
check_PROGRAMS += %D%/test_file
%C%_test_file_LDADD = $(sched_test_libs)
%C%_test_file_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pst__os_create \
	-Wl,--wrap=pst__os_open_folder -Wl,--wrap=pst__os_write \
	-Wl,--wrap=pst__os_read -Wl,--wrap=pst__os_fsync -Wl,--wrap=pst__os_close \
	-Wl,--wrap=pst__os_rename

check_PROGRAMS += %D%/test_schedule
%C%_test_schedule_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_registry
%C%_test_registry_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_check
%C%_test_check_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_check_capacity
%C%_test_check_capacity_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_lower
%C%_test_lower_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_simulate
%C%_test_simulate_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_network
%C%_test_network_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_csv
%C%_test_csv_LDADD = $(sched_test_libs)

check_PROGRAMS += %D%/test_report_json
%C%_test_report_json_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_test_report_json_LDADD = $(sched_test_libs) $(JANSSON_LIBS)

TESTS += \
	%D%/test_error \
	%D%/test_env \
	%D%/test_file \
	%D%/test_schedule \
	%D%/test_registry \
	%D%/test_check \
	%D%/test_check_capacity \
	%D%/test_lower \
	%D%/test_simulate \
	%D%/test_network \
	%D%/test_csv \
	%D%/test_report_json

check_PROGRAMS += %D%/test_listings
%C%_test_listings_LDADD = $(sched_test_libs)
TESTS += %D%/test_listings

check_PROGRAMS += %D%/test_zoo
%C%_test_zoo_LDADD = $(sched_test_libs)
TESTS += %D%/test_zoo

check_PROGRAMS += %D%/test_replicate
%C%_test_replicate_LDADD = $(sched_test_libs)
TESTS += %D%/test_replicate

check_PROGRAMS += %D%/test_mutations
%C%_test_mutations_LDADD = $(sched_test_libs)
TESTS += %D%/test_mutations
