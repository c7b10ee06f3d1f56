/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - which processes of a run share a host and its CPUs.
 *
 * A launcher either gives each process CPUs of its own, and then each places its ranks
 * on those, or lets several use the same, and then those share out one set of places:
 * the ranks of the first process, then those of the second, and so on.
 */
#ifndef PENSTOCK_STAGES_HOSTS_H
#define PENSTOCK_STAGES_HOSTS_H

#include <stdbool.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/pipeline.h>

typedef struct pst_share_of_host {
    int here;    /* ranks of this process                                       */
    int first;   /* place of the first of them                                  */
    int places;  /* ranks of all processes that use the same CPUs               */
    bool torn;   /* some process may use a part of this one's CPUs: no places   */
    int sharing; /* processes that use the same CPUs                           */
    bool narrow; /* and these are not all of the host                          */
} pst_share_of_host;

/* Without a transport all ranks are here. With one a call that all processes make.
 * Errors: as pst_transport_gather(). */
pst_status pst__hosts_share(const pst_env *env, const pst_pipeline_options *options,
                            int ranks, pst_share_of_host *share, pst_error *err);

#endif
