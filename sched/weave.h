/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weave.h - from an order of F and I to a whole list: where W goes, and how good that
 * is.
 *
 * Each rank runs its F and I in the given order, each as soon as it can. A W fills the
 * wait in front of one of them where it fits, or where the rule below lets it though it
 * does not; where memory is short, W comes before F; what is left of W comes last. So
 * the kinds that follow costs only have to find good orders.
 *
 * Memory counts stage-microbatches of a rank: 1 from F on, of which I frees a share and
 * W the rest.
 */
#ifndef PST_SCHED_WEAVE_H
#define PST_SCHED_WEAVE_H

#include <penstock/schedule.h>

/* When a W goes into a wait that is too short for it. */
typedef enum pst_greed {
    PST_GREED_NEVER,
    PST_GREED_OTHERS, /* where another rank has lost more time, and still will     */
    PST_GREED_ALWAYS,
    PST_GREED_HALF, /* where half of it fits                                     */
    PST_GREED_COUNT
} pst_greed;

/* First the longest time from a rank's first start to its last end counts, then the
 * makespan, then memory. */
typedef struct pst_weave_score {
    double longest;
    double makespan;
    int peak;
} pst_weave_score;

typedef struct pst_weave_rank {
    pst_action *order; /* F and I, [count]                                     */
    size_t count;
    size_t done;
    pst_action *waiting; /* I whose W is still to come, a queue                */
    size_t first, last;
    double now, begun, lost, held;
    int kept; /* stage-microbatches from F to W                                */
} pst_weave_rank;

typedef struct pst_weave {
    /* set by the caller */
    int ranks, stages, microbatches;
    const int *rank_of_stage; /* [stages]                                    */
    const double *f, *i, *w;  /* [stages] costs                              */
    double latency;
    double limit;          /* of a rank                                   */
    double freed_at_input; /* 0 .. 1                                      */
    int whole;             /* 1: B, not I and W                           */
    pst_greed greed;
    pst_weave_rank *rank; /* [ranks] whose orders are the caller's to fill */
    /* the weave's own */
    double *forward_end; /* [stages][m]                                 */
    double *input_end;
    double worst;
    int peak;
    pst_schedule_builder *builder;
    pst_error *err;
} pst_weave;

/*
 * Make room: for ranks, stages and microbatches as set, with room for every F and I of
 * a rank in its order. Errors: PST_ENOMEM; call fini in any case.
 */
pst_status pst__weave_init(pst_weave *weave, const pst_env *env, pst_error *err);
void pst__weave_fini(pst_weave *weave, const pst_env *env);

/*
 * Where a rank would wait, let it run a later forward that can start, as far as no rank
 * ever holds more than the limit for it. `order` changes.
 * Source: the authors' v1f1b fills its warm-up so; the rule is our own.
 */
void pst__weave_bring_up(pst_weave *weave);

/* Try the orders. False: memory is too short for them, or the ranks wait for each
 * other. */
int pst__weave_try(pst_weave *weave, pst_weave_score *score);

/* The same, appending all rows to `builder`. The orders must be such that a try
 * succeeds. */
pst_status pst__weave_write(pst_weave *weave, pst_schedule_builder *builder,
                            pst_error *err);

int pst__weave_is_better(pst_weave_score a, pst_weave_score b);

enum { PST_FINALISTS = 16 };

/* The best candidates of a search, best first; a key says how one is made. */
typedef struct pst_finalists {
    int most; /* 1 .. PST_FINALISTS that are kept                              */
    int count;
    int key[PST_FINALISTS];
    pst_weave_score score[PST_FINALISTS];
} pst_finalists;

/* Keep a candidate if it is among the best; of equal ones the first. */
void pst__finalists_enter(pst_finalists *list, int key, pst_weave_score score);

#endif
