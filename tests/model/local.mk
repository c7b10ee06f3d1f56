# SPDX-License-Identifier: BSD-3-Clause
# tests/model - one program a source file of model/, or one a subject of several.

check_LTLIBRARIES += %D%/libsupport.la
%C%_libsupport_la_SOURCES = %D%/support.c %D%/support.h

model_test_libs = %D%/libsupport.la tests/libtestmain.la model/libmodel.la \
	stages/libstages.la sched/libsched.la $(CHECK_LIBS)

check_PROGRAMS += %D%/test_blas
%C%_test_blas_LDADD = $(model_test_libs) $(OPENBLAS_LIBS)
%C%_test_blas_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
TESTS += %D%/test_blas

check_PROGRAMS += %D%/test_gradient
%C%_test_gradient_LDADD = $(model_test_libs)
TESTS += %D%/test_gradient

check_PROGRAMS += %D%/test_reference
%C%_test_reference_LDADD = $(model_test_libs)
TESTS += %D%/test_reference

check_PROGRAMS += %D%/test_trainer
%C%_test_trainer_LDADD = $(model_test_libs)
TESTS += %D%/test_trainer

check_PROGRAMS += %D%/test_adamw
%C%_test_adamw_LDADD = $(model_test_libs)
TESTS += %D%/test_adamw

check_PROGRAMS += %D%/test_asynchronous
%C%_test_asynchronous_LDADD = $(model_test_libs)
TESTS += %D%/test_asynchronous

check_PROGRAMS += %D%/test_data_parallel
%C%_test_data_parallel_LDADD = $(model_test_libs)
TESTS += %D%/test_data_parallel

check_PROGRAMS += %D%/test_shapes
%C%_test_shapes_LDADD = $(model_test_libs)
TESTS += %D%/test_shapes

check_PROGRAMS += %D%/test_gpt
%C%_test_gpt_LDADD = $(model_test_libs)
TESTS += %D%/test_gpt

check_PROGRAMS += %D%/test_text
%C%_test_text_LDADD = $(model_test_libs)
TESTS += %D%/test_text

check_PROGRAMS += %D%/test_safetensors
%C%_test_safetensors_LDADD = $(model_test_libs)
TESTS += %D%/test_safetensors

check_PROGRAMS += %D%/test_checkpoint
%C%_test_checkpoint_LDADD = $(model_test_libs)
TESTS += %D%/test_checkpoint

check_PROGRAMS += %D%/test_checkpoint_processes
%C%_test_checkpoint_processes_LDADD = tests/stages/libloopback.la $(model_test_libs)
TESTS += %D%/test_checkpoint_processes

check_PROGRAMS += %D%/test_memory
%C%_test_memory_LDADD = $(model_test_libs) $(JANSSON_LIBS)
%C%_test_memory_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
TESTS += %D%/test_memory

check_PROGRAMS += %D%/test_kernels
%C%_test_kernels_LDADD = $(model_test_libs)
TESTS += %D%/test_kernels

check_PROGRAMS += %D%/test_philox
%C%_test_philox_LDADD = $(model_test_libs)
TESTS += %D%/test_philox

check_PROGRAMS += %D%/test_digest
%C%_test_digest_LDADD = $(model_test_libs)
TESTS += %D%/test_digest
if X86_LEVELS
%C%_test_kernels_CPPFLAGS = $(AM_CPPFLAGS) -DPST_X86_LEVELS=1
endif

check_PROGRAMS += %D%/test_processes
%C%_test_processes_LDADD = tests/stages/libloopback.la $(model_test_libs)
TESTS += %D%/test_processes
