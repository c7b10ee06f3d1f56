# SPDX-License-Identifier: BSD-3-Clause
# tests/stages - one program a source file of stages/.

stages_test_libs = tests/libtestmain.la stages/libstages.la sched/libsched.la $(CHECK_LIBS)
