# SPDX-License-Identifier: BSD-3-Clause
# model/ - models as stages; uses stages/ and sched/.

pkginclude_HEADERS += \
	%D%/tensor.h \
	%D%/safetensors.h \
	%D%/checkpoint.h \
	%D%/text.h \
	%D%/blas.h \
	%D%/gpt.h \
	%D%/trainer.h \
	%D%/reference.h

noinst_LTLIBRARIES += %D%/libmodel.la
# careful_json.c is no part of libpenstock's interface, so each library has its own.
%C%_libmodel_la_SOURCES = \
	sched/careful_json.c \
	%D%/adamw.c \
	%D%/attention.c \
	%D%/blas.c \
	%D%/block.c \
	%D%/checkpoint.c \
	%D%/checkpoint_folder.c \
	%D%/checkpoint_load.c \
	%D%/digest.c \
	%D%/embedding.c \
	%D%/folder.c \
	%D%/generate.c \
	%D%/gpt.c \
	%D%/kernels_dispatch.c \
	%D%/linear.c \
	%D%/manifest_json.c \
	%D%/peers.c \
	%D%/philox.c \
	%D%/reader.c \
	%D%/reference_json.c \
	%D%/safetensors.c \
	%D%/safetensors_write.c \
	%D%/slice.c \
	%D%/spread.c \
	%D%/text.c \
	%D%/trainer.c \
	%D%/trainer_build.c \
	%D%/trainer_files.c \
	%D%/trainer_peers.c \
	%D%/adamw.h \
	%D%/block.h \
	%D%/carve.h \
	%D%/checkpoint_folder.h \
	%D%/cut.h \
	%D%/digest.h \
	%D%/folder.h \
	%D%/gpt_layout.h \
	%D%/kernels.h \
	%D%/layers.h \
	%D%/little_endian.h \
	%D%/manifest.h \
	%D%/peers.h \
	%D%/philox.h \
	%D%/reader.h \
	%D%/sgemm.h \
	%D%/slice.h \
	%D%/spread.h \
	%D%/trainer_peers.h \
	%D%/trainer_state.h
%C%_libmodel_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS) \
	$(JANSSON_CFLAGS) $(LIBMD_CFLAGS)
%C%_libmodel_la_LIBADD = $(model_kernels) $(OPENBLAS_LIBS) $(JANSSON_LIBS) $(LIBMD_LIBS)

# kernels.c once for each level that the CPU family has, and once for any CPU;
# kernels_dispatch.c chooses. KERNEL_FLAGS let the compiler use vectors.
model_kernels = %D%/libkernels_portable.la
%C%_libkernels_portable_la_SOURCES = %D%/kernels.c
%C%_libkernels_portable_la_CPPFLAGS = $(AM_CPPFLAGS) -DPST_KERNEL_LEVEL=0
%C%_libkernels_portable_la_CFLAGS = $(AM_CFLAGS) $(KERNEL_FLAGS)

if X86_LEVELS
%C%_libmodel_la_CPPFLAGS += -DPST_X86_LEVELS=1
model_kernels += %D%/libkernels_v2.la %D%/libkernels_v3.la %D%/libkernels_v4.la

%C%_libkernels_v2_la_SOURCES = %D%/kernels.c
%C%_libkernels_v2_la_CPPFLAGS = $(AM_CPPFLAGS) -DPST_KERNEL_LEVEL=2
%C%_libkernels_v2_la_CFLAGS = $(AM_CFLAGS) $(KERNEL_FLAGS) -march=x86-64-v2

%C%_libkernels_v3_la_SOURCES = %D%/kernels.c
%C%_libkernels_v3_la_CPPFLAGS = $(AM_CPPFLAGS) -DPST_KERNEL_LEVEL=3
%C%_libkernels_v3_la_CFLAGS = $(AM_CFLAGS) $(KERNEL_FLAGS) -march=x86-64-v3

%C%_libkernels_v4_la_SOURCES = %D%/kernels.c
%C%_libkernels_v4_la_CPPFLAGS = $(AM_CPPFLAGS) -DPST_KERNEL_LEVEL=4
%C%_libkernels_v4_la_CFLAGS = $(AM_CFLAGS) $(KERNEL_FLAGS) -march=x86-64-v4
endif
noinst_LTLIBRARIES += $(model_kernels)
