/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * generator.h - what a schedule's file gives to its row in the registry.
 *
 * A generator is a pure function from a shape to rows. It gets a shape that `refuse`
 * accepted, with no zero left in it.
 */
#ifndef PST_SCHED_GENERATOR_H
#define PST_SCHED_GENERATOR_H

#include <penstock/registry.h>

typedef struct pst_generator {
    pst_schedule_kind kind;
    /* Why not, and what would work; NULL: every shape with one chunk works. */
    pst_status (*refuse)(const pst_shape *shape, pst_error *err);
    /* Append all rows. Errors come from the builder. */
    pst_status (*fill)(pst_schedule_builder *builder, const pst_shape *shape,
                       pst_error *err);
    /* Theory's word on equal stages, or NULL; false where it is not known. */
    int (*closed_form)(const pst_shape *shape, double forward, double backward,
                       double latency, pst_closed_form *out);
} pst_generator;

extern const pst_generator pst__gpipe;
extern const pst_generator pst__one_f_one_b;

/* Append one action; `op` is an enum pst_op. */
static inline pst_status pst__append(pst_schedule_builder *builder, int rank, int op,
                                     int stage, int microbatch, pst_error *err)
{
    pst_action action = {.microbatch = (uint32_t)microbatch,
                         .stage = (uint16_t)stage,
                         .op = (uint8_t)op};
    return pst_schedule_builder_append(builder, rank, action, err);
}

#endif
