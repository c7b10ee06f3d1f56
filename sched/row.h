/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row.h - appending one rank's actions without asking after each.
 *
 * The first error is kept and everything after it is passed over.
 */
#ifndef PST_SCHED_ROW_H
#define PST_SCHED_ROW_H

#include <penstock/schedule.h>

typedef struct pst_row {
    pst_schedule_builder *builder;
    int rank;
    int below; /* microbatches from here on are left out                       */
    pst_status status;
    pst_error *err;
} pst_row;

static inline void pst__row_append(pst_row *row, int op, int stage, int microbatch,
                                   int paired)
{
    const pst_action action = {.microbatch = (uint32_t)microbatch,
                               .stage = (uint16_t)stage,
                               .op = (uint8_t)op,
                               .paired = (uint8_t)paired};
    if (row->status == PST_OK && microbatch < row->below)
        row->status =
            pst_schedule_builder_append(row->builder, row->rank, action, row->err);
}

static inline void pst__row_add(pst_row *row, int op, int stage, int microbatch)
{
    pst__row_append(row, op, stage, microbatch, 0);
}

/* For a generator that needs memory of its own. */
const pst_env *pst__schedule_builder_env(const pst_schedule_builder *builder);

/* The list as it stands, for its shape, replicas and slices. */
const pst_schedule *pst__schedule_builder_shape(const pst_schedule_builder *builder);

static inline int pst__min(int a, int b)
{
    return a < b ? a : b;
}

#endif
