/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loopback.h - a transport whose processes are threads of one process.
 *
 * A message is copied when it has both been sent and asked for, by the thread that
 * came second, which calls `done` of both. A send thus ends no sooner than its receive
 * begins, which is the least that a transport promises. A message that is larger than
 * the receiver has room for fails the transport.
 */
#ifndef PST_TESTS_STAGES_LOOPBACK_H
#define PST_TESTS_STAGES_LOOPBACK_H

#include <penstock/transport.h>

typedef struct loopback loopback;

/* Ends the program where memory is out. */
loopback *loopback_create(int processes);

/* The end of `process`, borrowed. It is "process 1 on node-1". */
pst_transport *loopback_end(loopback *own, int process);

/* Transfers that nobody came for end as failed. NULL allowed. */
void loopback_destroy(loopback *own);

#endif
