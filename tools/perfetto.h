/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perfetto.h - scenes as a trace in the JSON form that Perfetto and Chrome read.
 *
 * Times in microseconds from 0, one track a rank, slices of a track nested or disjoint.
 * A unit of a simulation counts as a millisecond.
 */
#ifndef PST_TOOLS_PERFETTO_H
#define PST_TOOLS_PERFETTO_H

#include "tools/scene.h"

/* Each scene is a process of its own in the trace. Errors: PST_EIO, PST_ENOMEM. */
pst_status perfetto_write(const scene *const *scenes, int count, const char *path,
                          pst_error *err);

#endif
