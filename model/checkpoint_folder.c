/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint_folder.c - checkpoints of a folder: named, found, published, pruned. */
#include "model/checkpoint_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/folder.h"

enum { KEPT = 2 };

void pst__checkpoint_point(const pst_env *env, const char *name)
{
    pst_log(env, PST_LOG_TRACE, "save point %s", name);
}

/* ---- names ----------------------------------------------------------------------- */

pst_status pst__checkpoint_path(char path[PST_CHECKPOINT_PATH], const char *dir,
                                int64_t step, const char *rest, pst_error *err)
{
    if (snprintf(path, PST_CHECKPOINT_PATH, "%s/step-%08" PRId64 "%s", dir, step,
                 rest) < PST_CHECKPOINT_PATH)
        return PST_OK;
    return pst_error_set(err, PST_EINVAL, "%.100s...: this path is too long", dir);
}

char *pst__checkpoint_file(char name[PST_CHECKPOINT_NAME], const char *part,
                           int process, int processes)
{
    if (processes == 1)
        snprintf(name, PST_CHECKPOINT_NAME, "%s.safetensors", part);
    else
        snprintf(name, PST_CHECKPOINT_NAME, "%s-%05d-of-%05d.safetensors", part,
                 process + 1, processes);
    return name;
}

/* "step-00000100" exactly; -1 for other names. */
static int64_t step_of(const char *name)
{
    char same[PST_CHECKPOINT_NAME];
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    const int64_t step = strtoll(name + 5, &end, 10);
    snprintf(same, sizeof same, "step-%08" PRId64, step);
    return strcmp(same, name) == 0 ? step : -1;
}

typedef struct search {
    int64_t below;
    int64_t found;
} search;

static pst_status look_at(void *user, const char *name, pst_error *err)
{
    (void)err;
    search *own = user;
    const int64_t step = step_of(name);
    if (step < own->below && step > own->found)
        own->found = step;
    return PST_OK;
}

pst_status pst__checkpoint_newest(const char *dir, int64_t below, int64_t *step,
                                  pst_error *err)
{
    search own = {.below = below, .found = -1};
    const pst_status status = pst__folder_list(dir, look_at, &own, err);
    if (status == PST_OK)
        *step = own.found;
    return status;
}

/* ---- coming and going ------------------------------------------------------------ */

pst_status pst__checkpoint_make(const pst_env *env, const char *dir, int64_t step,
                                pst_error *err)
{
    char unfinished[PST_CHECKPOINT_PATH];
    pst_status status = pst__checkpoint_path(unfinished, dir, step, ".tmp", err);
    if (status == PST_OK)
        status = pst__folder_make(env, dir, err);
    if (status == PST_OK && pst__folder_has(unfinished))
        status = pst__folder_remove(unfinished, err);
    if (status == PST_OK)
        status = pst__folder_make(env, unfinished, err);
    return status;
}

pst_status pst__checkpoint_publish(const pst_env *env, const char *dir, int64_t step,
                                   pst_error *err)
{
    char unfinished[PST_CHECKPOINT_PATH], finished[PST_CHECKPOINT_PATH];
    pst_status status = pst__checkpoint_path(unfinished, dir, step, ".tmp", err);
    if (status == PST_OK)
        status = pst__checkpoint_path(finished, dir, step, "", err);
    if (status != PST_OK)
        return status;
    pst__checkpoint_point(env, "before-rename");
    const bool again = pst__folder_has(finished);
    status = again ? pst__folder_exchange(unfinished, finished, err)
                   : pst__folder_rename(unfinished, finished, err);
    if (status == PST_OK)
        pst__checkpoint_point(env, "renamed");
    if (status == PST_OK)
        status = pst__folder_sync(dir, err);
    if (status == PST_OK && again)
        status = pst__folder_remove(unfinished, err);
    return status;
}

void pst__checkpoint_drop(const char *dir, int64_t step)
{
    char unfinished[PST_CHECKPOINT_PATH];
    if (pst__checkpoint_path(unfinished, dir, step, ".tmp", NULL) == PST_OK)
        pst__folder_remove(unfinished, NULL);
}

/* A checkpoint that goes. */
typedef struct old {
    const pst_env *env;
    char path[PST_CHECKPOINT_PATH];
} old;

/* The manifest first: what is half gone is then no checkpoint to anybody. */
static pst_status remove_in_turn(void *user, const char *name, pst_error *err)
{
    const old *own = user;
    const pst_status status = pst__folder_remove_file(own->path, "manifest.json", err);
    pst__checkpoint_point(own->env, "pruning");
    return status == PST_OK ? pst__folder_remove_file(own->path, name, err) : status;
}

static pst_status remove_one(const pst_env *env, const char *dir, int64_t step,
                             pst_error *err)
{
    old own = {.env = env};
    pst_status status = pst__checkpoint_path(own.path, dir, step, "", err);
    if (status == PST_OK)
        status = pst__folder_list(own.path, remove_in_turn, &own, err);
    if (status == PST_OK)
        status = pst__folder_remove_empty(own.path, err);
    return status;
}

void pst__checkpoint_prune(const pst_env *env, const char *dir)
{
    pst_error err = PST_ERROR_INIT;
    int64_t step = INT64_MAX;
    pst_status status = PST_OK;
    for (int i = 0; status == PST_OK && step >= 0; i++) {
        status = pst__checkpoint_newest(dir, step, &step, &err);
        if (status == PST_OK && step >= 0 && i >= KEPT)
            status = remove_one(env, dir, step, &err);
    }
    if (status != PST_OK)
        pst_log(env, PST_LOG_WARNING, "%s", err.text);
}
