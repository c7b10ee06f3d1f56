/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * generator.h - what a schedule's file gives to its row in the registry.
 *
 * A generator is a pure function from a shape to rows. It gets a shape that `refuse`
 * accepted, with its defaults filled in (`group` 0 apart).
 */
#ifndef PST_SCHED_GENERATOR_H
#define PST_SCHED_GENERATOR_H

#include <penstock/registry.h>

#include "sched/row.h"

/* What a kind may be told beside p, m and v. */
enum pst_shape_option {
    PST_SHAPE_BACKWARD_ORDER = 1,
    PST_SHAPE_GROUP = 2,
    PST_SHAPE_WARMUP_EXTRA = 4,
    PST_SHAPE_PAIRS = 8,
    PST_SHAPE_SLICES = 16,
    PST_SHAPE_WEIGHTS = 32,
    PST_SHAPE_MEMORY = 64
};

enum { PST__ANY_CHUNKS = 65535 };

/* What one stage costs a microbatch (or one slice of it), and a hop. */
typedef struct pst_unit_costs {
    double forward;
    double backward_input;
    double backward_weight;
    double latency;
} pst_unit_costs;

typedef struct pst_generator {
    pst_schedule_kind kind;
    /* Why not, and what would work; NULL: every p and m works, with `chunks` chunks. */
    pst_status (*refuse)(const pst_shape *shape, pst_error *err);
    /* Append the row of row->rank. Errors come from the builder and stay in `row`. */
    void (*fill)(pst_row *row, const pst_shape *shape);
    /* Or append all rows at once, where they are found together. */
    pst_status (*fill_all)(pst_schedule_builder *builder, const pst_shape *shape,
                           pst_error *err);
    unsigned options; /* enum pst_shape_option, or-ed                         */
    int chunks;       /* v unless told otherwise; 0: 1                         */
    int chunks_most;  /* 0: as many as `chunks`, which is then the only v      */
    int replicas;     /* of the model, which share m; 0: 1                     */
    pst_weight_policy weight_policy; /* of asynchronous kinds                  */
    /* Theory's word on equal stages, or NULL; false where it is not known. */
    int (*closed_form)(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out);
} pst_generator;

extern const pst_generator pst__gpipe;
extern const pst_generator pst__one_f_one_b;
extern const pst_generator pst__eager_one_f_one_b;
extern const pst_generator pst__interleaved;
extern const pst_generator pst__looped_bfs;
extern const pst_generator pst__zb_h1;
extern const pst_generator pst__zb_h2;
extern const pst_generator pst__zb_1p;
extern const pst_generator pst__zb_2p;
extern const pst_generator pst__interleaved_zb;
extern const pst_generator pst__zb_v;
extern const pst_generator pst__zb_v_auto;
extern const pst_generator pst__v_half;
extern const pst_generator pst__v_min;
extern const pst_generator pst__one_f_one_b_v;
extern const pst_generator pst__dualpipe;
extern const pst_generator pst__dualpipev;
extern const pst_generator pst__chimera;
extern const pst_generator pst__hanayo;
extern const pst_generator pst__seq_one_f_one_b;
extern const pst_generator pst__gis;
extern const pst_generator pst__bpipe;
extern const pst_generator pst__pipedream;
extern const pst_generator pst__pipedream_2bw;
extern const pst_generator pst__forward_only;

#endif
