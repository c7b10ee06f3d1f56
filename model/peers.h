/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peers.h - what all processes of a run find out together.
 *
 * Every function is called by all processes in the same order, and blocks. A NULL
 * transport is one process, for which they do next to nothing.
 */
#ifndef PST_MODEL_PEERS_H
#define PST_MODEL_PEERS_H

#include <stddef.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/transport.h>

int pst__peers_count(const pst_transport *transport);
int pst__peers_own(const pst_transport *transport); /* number of this process        */

/* As pst_transport_gather(), pst_transport_broadcast() and pst_transport_agree(). */
pst_status pst__peers_gather(pst_transport *transport, const void *own, size_t bytes,
                             void *all, pst_error *err);
pst_status pst__peers_broadcast(pst_transport *transport, int from, void *data,
                                size_t bytes, pst_error *err);

pst_status pst__peers_agree(pst_transport *transport, const pst_error *own,
                            pst_error *err);

/*
 * Which processes have one folder of the path `dir` and which have folders of their
 * own: *home is the lowest process whose files this one finds there. The folder exists.
 * Each process leaves a file there for the others to look for, and takes it away.
 */
pst_status pst__peers_home(const pst_env *env, pst_transport *transport,
                           const char *dir, int *home, pst_error *err);

#endif
