/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * toy.h - stages whose every result can be checked, and lists for them to run.
 *
 * Stage s makes y = w x + s element by element from x; the last one's loss has the
 * gradient y - target. Whatever a buffer should still hold is looked at again in each
 * callback that may read it, so one that was given away too early fails the run.
 * Where sequences are cut, "microbatch" is here what the list means by it: one slice.
 */
#ifndef PST_TESTS_STAGES_TOY_H
#define PST_TESTS_STAGES_TOY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/pipeline.h>
#include <penstock/schedule.h>

#include "stages/atomic.h"

enum { TOY_STAGES = 256, TOY_MICROBATCHES = 16, TOY_WIDTH = 8 };

/* To the hook, behind F, I (also the first half of B) and W (also the second). */
enum { TOY_REDUCE = PST_OP_COUNT, TOY_STEP };

/* Called at the end of every callback, on its thread. */
typedef pst_status (*toy_hook)(void *user, int op, pst_work *work, pst_error *err);

typedef struct toy_shape {
    int stages;
    int ranks;
    const int *rank_of_stage; /* NULL: as many ranks as stages, each on its own */
    bool exact;               /* all values are whole; else sums depend on order */
    bool shrinks;             /* buffers are used in part, other parts each time */
    int slices;               /* of the next list's sequences; 0: they are whole */
} toy_shape;

typedef struct toy toy;

typedef struct toy_self {
    toy *owner;
    int stage;
    int reduced; /* calls                                                      */
    int stepped;
} toy_self;

struct toy {
    toy_shape shape;
    int rank_of_stage[TOY_STAGES];
    pst_stage stage[TOY_STAGES];
    toy_self self[TOY_STAGES];
    float result[TOY_MICROBATCHES][TOY_WIDTH]; /* the last stage's y           */
    toy_hook hook;
    void *user;
};

/* A zeroed or used toy anew. */
void toy_init(toy *t, const toy_shape *shape);
float toy_weight(const toy *t, int stage, size_t k);

/* Of a pipeline over several processes all of this is about the stages that are here.
 */

/* Everything below fails the test where it cannot do what it should. */

/* With the weights in place. options and env may be NULL. */
pst_pipeline *toy_create(toy *t, const pst_env *env,
                         const pst_pipeline_options *options);
int toy_load(pst_pipeline *pipeline, const pst_schedule *schedule);

/* One iteration, and then all results of it: activations and gradients, bit by bit. */
void toy_run(toy *t, pst_pipeline *pipeline, int program, int microbatches,
             int64_t iteration);

/* What toy_run() looks at; for any thread. */
bool toy_is_right(const toy *t, pst_pipeline *pipeline, int microbatches,
                  int64_t iteration);

/* The gradient of `stage` that a run must leave. */
void toy_gradient(const toy *t, int stage, int microbatches, int64_t iteration,
                  float *gradient);

/* The `index`-th microbatch whose gradient is added. */
int toy_due(const toy *t, int index);

/* "gpipe" and the like, with a stage on each rank. */
pst_schedule *toy_named(const char *name, int ranks, int microbatches);
pst_schedule *toy_parse(const char *csv);

/* seq1f1b with the toy's slices. */
pst_schedule *toy_sliced(const toy *t, int ranks, int whole_microbatches);

/*
 * Some valid list for the toy's stages, ranks and slices: of all actions that could run
 * next, a random one does. With `late_weights` there is no B, W's come as late as they
 * can, and the last microbatch's first.
 */
pst_schedule *toy_random(const toy *t, int microbatches, uint64_t seed,
                         bool late_weights);

/* An allocator that counts, and can run dry; and an ear. */
typedef struct toy_env {
    pst_env env;
    long live;     /* blocks                                                  */
    long total;    /* blocks there ever were                                  */
    long fail_at;  /* the block, from 1, that is refused; 0: none             */
    int thread_id; /* that may allocate                                       */
    long foreign;  /* calls from other threads                                */
    struct toy_block *blocks; /* all that are live                             */
    pst_atomic_u32 lines;
    char last_line[256];
} toy_env;

void toy_env_init(toy_env *memory);

#endif
