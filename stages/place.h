/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - a worker goes to its place on the machine. */
#ifndef PENSTOCK_STAGES_PLACE_H
#define PENSTOCK_STAGES_PLACE_H

#include <penstock/pipeline.h>

#include "stages/topology.h"

/* Bind the calling thread to rank's place (topology NULL: nowhere) and note where that
 * is. A refused binding is one warning in the log. */
void pst__place_take(const pst_env *env, const pst_topology *topology, int rank,
                     pst_worker_info *info);

#endif
