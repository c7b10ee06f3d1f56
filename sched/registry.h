/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registry.h - the schedules that have a name.
 *
 * The one place where names lead to lists. Everything else takes a pst_schedule.
 */
#ifndef PENSTOCK_REGISTRY_H
#define PENSTOCK_REGISTRY_H

#include <stddef.h>

#include <penstock/schedule.h>
#include <penstock/simulate.h>

PST_BEGIN_DECLS

typedef enum pst_order {
    PST_ORDER_DEFAULT, /* the schedule's own                                   */
    PST_ORDER_ASCENDING,
    PST_ORDER_DESCENDING
} pst_order;

/* Which W a zero-bubble kind takes first, where it has a choice. */
typedef enum pst_weights {
    PST_WEIGHTS_DEFAULT,    /* the schedule's own, mostly the oldest           */
    PST_WEIGHTS_LIFO_MERGED /* the newest, as one action with its I where it can be */
} pst_weights;

/* What a generator is asked for. A zero is the schedule's own default; what a kind has
 * no use for is refused. */
typedef struct pst_shape {
    int ranks;                /* p, 1 .. 65,535                                */
    int microbatches;         /* m, 1 .. 2^31 - 1                              */
    int chunks;               /* v, stages on each rank                        */
    pst_order backward_order; /* of microbatches                               */
    int group;                /* microbatches that go from chunk to chunk together */
    int warmup_extra;         /* forwards more in the warm-up                  */
    int pairs;                /* 1: F and B of the steady state overlap; brings
                                 at least one forward more in the warm-up      */
    int slices;               /* k, parts of a sequence; units are i k + slice */
    pst_weights weights;
    double memory_limit;    /* microbatches of a rank held at most (full-size ones) */
    double freed_at_input;  /* share of one that I frees already, 0 .. 1         */
    const pst_costs *costs; /* that the list is made for, one a stage; borrowed;
                               NULL: F = I = W = 1                             */
} pst_shape;

/* One named schedule, as a person would look it up. Constant, borrowed. */
typedef struct pst_schedule_kind {
    const char *name;
    const char *const *aliases; /* ends in NULL                                */
    const char *summary;        /* one line                                    */
    const char *source;         /* paper or program                            */
    const char *needs;          /* the shapes it takes, in words               */
    const char *costs;          /* idle time and memory as closed forms        */
    int uses_costs;             /* 1: the list depends on the shape's costs    */
} pst_schedule_kind;

/* What theory says of one iteration with equal stages. */
typedef struct pst_closed_form {
    double makespan;
    int peak_first_rank; /* stage-microbatches held by rank 0                  */
    int peak_last_rank;  /* and by rank p - 1                                  */
    const char *formula; /* of the makespan, borrowed                          */
} pst_closed_form;

/* Kinds in the order of the table; NULL past its end. */
PST_API const pst_schedule_kind *pst_schedule_kind_at(size_t index);

/* By name or alias, letter case and '_' for '-' forgiven; NULL: unknown. */
PST_API const pst_schedule_kind *pst_schedule_kind_find(const char *name);

/*
 * Make the schedule called `name` for `shape`.
 *
 * Owns:    *out, set only on success, is the caller's; pst_schedule_destroy().
 * Errors:  PST_EINVAL  unknown name, or a shape that it cannot do; the text
 *                      gives the rule and the nearest shapes that work.
 *          PST_ENOMEM
 * Cost:    8 bytes and O(1) time an action.
 * Threads: any.
 */
PST_API pst_status pst_schedule_create(const pst_env *env, const char *name,
                                       const pst_shape *shape, pst_schedule **out,
                                       pst_error *err);

/*
 * The closed form of `name` for `shape`, where every stage costs forward,
 * backward_input and backward_weight a microbatch and a hop takes `latency`.
 * False where none is known for such a shape or latency.
 */
PST_API int pst_schedule_closed_form(const char *name, const pst_shape *shape,
                                     double forward, double backward_input,
                                     double backward_weight, double latency,
                                     pst_closed_form *out);

PST_END_DECLS

#endif
