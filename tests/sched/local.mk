# SPDX-License-Identifier: BSD-3-Clause
# tests/sched - one program a source file of sched/.

sched_test_libs = tests/libtestmain.la sched/libsched.la $(CHECK_LIBS)
