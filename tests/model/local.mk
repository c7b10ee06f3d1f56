# SPDX-License-Identifier: BSD-3-Clause
# tests/model - one program a source file of model/.

model_test_libs = tests/libtestmain.la model/libmodel.la stages/libstages.la sched/libsched.la $(CHECK_LIBS)
