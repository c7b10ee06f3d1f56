/* SPDX-License-Identifier: BSD-3-Clause */
/* check_state.h - what the checker knows of a list while it reads it. */
#ifndef PST_SCHED_CHECK_STATE_H
#define PST_SCHED_CHECK_STATE_H

#include <penstock/check.h>

/* One bit an operation, of what was seen of a (stage, microbatch). */
#define PST__SEEN(op) (1u << (op))

typedef struct pst__checking {
    const pst_env *env;
    const pst_schedule *schedule;
    int stages;
    size_t microbatches;
    uint16_t *seen; /* [stages][m]                                             */
    int has_backward;
    int has_messages;
    int has_steps;
} pst__checking;

static inline uint16_t *pst__check_seen(const pst__checking *c, int stage,
                                        uint32_t microbatch)
{
    return &c->seen[(size_t)stage * c->microbatches + microbatch];
}

/* "rank 3, cell 17 (2F4): ..." with file and line where the list has a file. */
pst_status pst__check_fault(const pst__checking *c, int rank, size_t index,
                            pst_error *err, const char *format, ...) PST_PRINTF(5, 6);

/* "rank 1: 1F1 is missing" */
pst_status pst__check_missing(const pst__checking *c, int stage, size_t microbatch,
                              const char *what, pst_error *err);

/* Each STEP stands behind its batch and before the next one's gradients. After the rows
 * were read, so that everything is there once. */
pst_status pst__check_steps(const pst__checking *c, pst_error *err);

#endif
