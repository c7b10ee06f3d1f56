/* SPDX-License-Identifier: BSD-3-Clause */
/* support.h - what the tests of model/ share: small trainers, batches, folders. */
#ifndef PST_TESTS_MODEL_SUPPORT_H
#define PST_TESTS_MODEL_SUPPORT_H

#include <stdint.h>

#include <penstock/trainer.h>

/* What a small trainer is made from; a zero has the default beside it. */
typedef struct small {
    const char *schedule; /* "1f1b"                                            */
    int stages;           /* 1; over all replicas                              */
    int chunks;           /* 1: stages on each rank                            */
    int microbatches;     /* 2                                                 */
    int data_parallel;    /* 1: copies of the list side by side                 */
    const int *shares;    /* of each, of the batch; NULL: equal ones           */
    int slices;           /* of sequences, for kinds that have them; else 0    */
    int batch;            /* 4                                                 */
    int team;             /* cores of each rank; 0: as many as there are        */
    uint64_t delay_seed;  /* 0: no delays                                      */
    uint64_t seed;        /* 0 is 0                                            */
    pst_gpt_config model; /* 4 layers, 2 heads, width 16, context 8, 32 tokens */
    pst_adamw optimizer;
    const pst_env *env;   /* NULL: malloc's memory                             */
    const char *topology; /* hwloc's synthetic form; NULL: this machine        */
    pst_status (*decorate)(void *user, pst_stage *stages, int count, pst_error *err);
    void *decorate_user;
    pst_transport *transport; /* NULL: one process                             */
    const int *process_of_rank;
} small;

/* Ends the test where it cannot be made. */
pst_trainer *small_trainer(const small *how);

/* As small_trainer, but hands on what pst_trainer_create() says. */
pst_status small_trainer_try(const small *how, pst_trainer **out, pst_error *err);

/* Random ids below `vocabulary`, the same for the same seed. */
void random_ids(int32_t *ids, size_t count, int vocabulary, uint64_t seed);

/* One gradient or step on random data of the given seed. Returns the loss. */
double gradient_of(pst_trainer *trainer, const small *how, uint64_t data_seed);
double step_of(pst_trainer *trainer, const small *how, uint64_t data_seed);

/* A new empty folder; its path is the caller's (free). remove_folder() takes it away
 * with all that is in it, one level of folders deep. */
char *make_folder(void);
void remove_folder(char *path);

/* "path/name", in a buffer that the next call but three reuses. */
const char *in_folder(const char *path, const char *name);

void write_file(const char *path, const void *data, size_t bytes);

/* A file of the source tree's tests/data; as in_folder(). */
const char *data_file(const char *name);

#endif
