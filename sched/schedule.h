/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.h - a pipeline schedule as data.
 *
 * One row for each rank; a row is the ordered list of actions that rank runs.
 * Nothing here says when: times come from simulate.h, messages from lower.h.
 * A schedule never changes once made, and any number of threads may read it.
 */
#ifndef PENSTOCK_SCHEDULE_H
#define PENSTOCK_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>

PST_BEGIN_DECLS

/* What an operation is, is in its row of ops.c; see pst_op_describe(). */
typedef enum pst_op {
    PST_OP_FORWARD,          /* F: x in, y out, saves activations              */
    PST_OP_BACKWARD,         /* B: I and W as one action                       */
    PST_OP_BACKWARD_INPUT,   /* I: dy in, dx out, keeps what W needs           */
    PST_OP_BACKWARD_WEIGHT,  /* W: adds to dw, frees what was kept             */
    PST_OP_SEND_FORWARD,     /* SEND_F: this stage's y leaves for stage + 1    */
    PST_OP_RECEIVE_FORWARD,  /* RECV_F: this stage's x arrives from stage - 1  */
    PST_OP_SEND_BACKWARD,    /* SEND_B: this stage's dx leaves for stage - 1   */
    PST_OP_RECEIVE_BACKWARD, /* RECV_B: this stage's dy arrives from stage + 1 */
    PST_OP_UNSHARD,          /* UNSHARD, RESHARD, REDUCE_GRAD: PyTorch's FSDP  */
    PST_OP_RESHARD,          /*   actions; carried, never executed; their      */
    PST_OP_REDUCE_GRAD,      /*   microbatch is PST_NO_MICROBATCH              */
    PST_OP_EVICT,            /* EVICT: what F saved goes to the rank's partner */
    PST_OP_LOAD,             /* LOAD: and comes back for the backward          */
    PST_OP_STEP,             /* STEP: the stage's weights change; see
                                pst_schedule_updates()                         */
    PST_OP_COUNT
} pst_op;

#define PST_NO_MICROBATCH UINT32_MAX

/* One cell of a row: 8 bytes, since a schedule may hold 10^7 of them. */
typedef struct pst_action {
    uint32_t microbatch; /* 0 .. microbatches - 1                              */
    uint16_t stage;      /* 0 .. stages - 1 of the whole pipeline              */
    uint8_t op;          /* enum pst_op                                        */
    uint8_t paired;      /* 1: overlaps with the next action of the row        */
} pst_action;

/* What kind of thing an operation does; one row an operation in ops.c. */
typedef struct pst_op_description {
    const char *csv;  /* in PyTorch's grammar: "F", "SEND_B"                */
    const char *name; /* in words: "backward-input"                         */
    uint32_t color;   /* 0xRRGGBB, in drawings                              */
    uint8_t computes; /* F, B, I, W                                         */
    uint8_t runs;     /* is of the schedule itself: these, EVICT, LOAD, STEP */
    uint8_t has_microbatch;
    uint8_t makes_output;     /* sends an activation to stage + 1 (F)          */
    uint8_t makes_input_grad; /* sends a gradient to stage - 1 (B, I)          */
    uint8_t saves;            /* one activation more is held afterwards (F, LOAD) */
    uint8_t frees;            /* one activation less (B, W, EVICT)             */
    uint8_t in_pytorch;       /* PyTorch's grammar knows it                    */
} pst_op_description;

/* Borrowed, constant; NULL where op is out of range. */
PST_API const pst_op_description *pst_op_describe(int op);

typedef struct pst_schedule pst_schedule;

/* What it is called: a generator's name, or a file's path. Borrowed. */
PST_API const char *pst_schedule_name(const pst_schedule *schedule);

/* The file it was read from, for messages; NULL where it was made. Borrowed. */
PST_API const char *pst_schedule_file(const pst_schedule *schedule);

PST_API int pst_schedule_ranks(const pst_schedule *schedule);
PST_API int pst_schedule_stages(const pst_schedule *schedule);
/* Microbatch ids of one stage; with slices it counts slices. */
PST_API int pst_schedule_microbatches(const pst_schedule *schedule);

/* m as people count them: whole microbatches over all replicas. */
PST_API int pst_schedule_total_microbatches(const pst_schedule *schedule);

/*
 * Copies of the model (bidirectional kinds have 2), which share the ranks: stage s of
 * copy c is written c S / copies + s, and each copy has its own microbatches from 0 on.
 * 1 for all other lists.
 */
PST_API int pst_schedule_replicas(const pst_schedule *schedule);

/*
 * Copies D of a whole list that stand side by side (pst_schedule_replicate()), each
 * with data of its own: rank d + D r is rank r of copy d, and the replicas of copy d
 * follow those of copy d - 1, so that there are a multiple of D. 1 for all other lists.
 */
PST_API int pst_schedule_data_parallel(const pst_schedule *schedule);

/* Parts k that sequences are cut into: "microbatch" i k + s of an action is slice s of
 * microbatch i. 1 for all other lists. */
PST_API int pst_schedule_slices(const pst_schedule *schedule);

/*
 * Asynchronous kinds. `sSTEPi` ends a batch: it applies to stage s the sum of the
 * gradients of all microbatches from behind the last STEP up to i, and clears it. So
 * microbatch ids run on across steps, and one list makes as many updates as a stage has
 * STEPs. 0: none, and the optimizer steps after the list.
 */
PST_API int pst_schedule_updates(const pst_schedule *schedule);

/* Which weights a microbatch uses, for F and backward alike, where a list has STEPs. */
typedef enum pst_weight_policy {
    PST_VERSIONS_STASH, /* PipeDream: the newest of the moment its F ran        */
    PST_VERSIONS_DOUBLE /* PipeDream-2BW: batch t the ones that t - 1 updates made,
                          batch 0 and 1 the first: two versions are enough     */
} pst_weight_policy;

PST_API pst_weight_policy pst_schedule_weight_policy(const pst_schedule *schedule);

/* version[m]: the one that each microbatch of `stage` uses; 0 is what the weights are
 * before its first STEP, and each STEP makes one more. The list must be valid. */
PST_API void pst_schedule_assign_versions(const pst_schedule *schedule, int stage,
                                          uint32_t *version);

/* Most versions of `stage`'s weights that are needed at once: 1 without STEPs. The list
 * must be valid. -1: no memory. */
PST_API int pst_schedule_weight_versions(const pst_env *env,
                                         const pst_schedule *schedule, int stage);

/*
 * BPipe. Rank r's EVICTs go to rank p-1-r, its partner (of the same copy, where lists
 * stand side by side); -1 in the middle of an odd p.
 * pst_schedule_most_evicted(): the most that `rank` has there at once.
 */
PST_API int pst_schedule_partner(const pst_schedule *schedule, int rank);
PST_API int pst_schedule_most_evicted(const pst_schedule *schedule, int rank);

/* The stage that uses what `stage` makes, and the one whose output it uses; -1 at the
 * ends of a replica. */
PST_API int pst_schedule_next_stage(const pst_schedule *schedule, int stage);
PST_API int pst_schedule_previous_stage(const pst_schedule *schedule, int stage);

/* The rank that holds `stage` by the rows, or -1 where none or two do. */
PST_API int pst_schedule_rank_of(const pst_schedule *schedule, int stage);

/* The row of `rank` (0 .. ranks - 1), borrowed; *count actions. Never fails. */
PST_API const pst_action *pst_schedule_row(const pst_schedule *schedule, int rank,
                                           size_t *count);

/* Which cell of its line the action at `index` of a row is, from 1, idle cells counted.
 */
PST_API size_t pst_schedule_cell(const pst_schedule *schedule, int rank, size_t index);

/* Actions in all rows. */
PST_API size_t pst_schedule_action_count(const pst_schedule *schedule);

/* "2F5", "1I0", "3REDUCE_GRAD" into `text` (32 bytes are always enough); returns text.
 */
PST_API char *pst_action_text(pst_action action, char *text, size_t size);

PST_API void pst_schedule_destroy(pst_schedule *schedule);

/*
 * Making a schedule from one's own lists: create, append each row's actions in
 * order (rows may be filled in any order), finish. A list need not be valid to be
 * made (check.h finds that out), but its ids must fit the shape: append refuses
 * a rank, stage or microbatch that is out of range, with PST_ESCHEDULE.
 */
typedef struct pst_schedule_builder pst_schedule_builder;

/* Errors: PST_EINVAL  ranks, stages or microbatches < 1 or beyond 65,535 (2^31 - 1
 *         for microbatches); PST_ENOMEM. */
PST_API pst_status pst_schedule_builder_create(const pst_env *env, int ranks,
                                               int stages, int microbatches,
                                               pst_schedule_builder **out,
                                               pst_error *err);
/* As create, with the shape, replicas, slices, copies and weight policy of another. */
PST_API pst_status pst_schedule_builder_create_like(const pst_env *env,
                                                    const pst_schedule *schedule,
                                                    pst_schedule_builder **out,
                                                    pst_error *err);
PST_API pst_status pst_schedule_builder_append(pst_schedule_builder *builder, int rank,
                                               pst_action action, pst_error *err);

/* Count an idle cell of a file, so that messages name the right cell. */
PST_API pst_status pst_schedule_builder_idle(pst_schedule_builder *builder, int rank,
                                             pst_error *err);

/* Errors: PST_EINVAL where replicas do not divide the stages, or slices the
 * microbatches. */
PST_API pst_status pst_schedule_builder_set_replicas(pst_schedule_builder *builder,
                                                     int replicas, pst_error *err);
PST_API pst_status pst_schedule_builder_set_slices(pst_schedule_builder *builder,
                                                   int slices, pst_error *err);

/* Errors: PST_EINVAL where the copies do not divide ranks and replicas. */
PST_API pst_status pst_schedule_builder_set_data_parallel(pst_schedule_builder *builder,
                                                          int copies, pst_error *err);

PST_API void pst_schedule_builder_set_weight_policy(pst_schedule_builder *builder,
                                                    pst_weight_policy policy);

/* The schedule; the builder is destroyed, on errors too. `file` may be NULL. */
PST_API pst_status pst_schedule_builder_finish(pst_schedule_builder *builder,
                                               const char *name, const char *file,
                                               pst_schedule **out, pst_error *err);
PST_API void pst_schedule_builder_destroy(pst_schedule_builder *builder);

/*
 * Data parallelism: `copies` of `schedule` side by side, see
 * pst_schedule_data_parallel(). Each copy has the microbatches of `schedule`, numbered
 * from 0, and no action of one waits for another's.
 * Errors: PST_EINVAL  copies below 1, ids beyond what a list can hold, a list that has
 *                     STEPs (its copies would have to agree before each) or that is
 *                     made of copies itself.
 *         PST_ENOMEM
 */
PST_API pst_status pst_schedule_replicate(const pst_env *env,
                                          const pst_schedule *schedule, int copies,
                                          pst_schedule **out, pst_error *err);

PST_END_DECLS

#endif
