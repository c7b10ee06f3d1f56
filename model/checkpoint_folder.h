/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checkpoint_folder.h - a folder of checkpoints: what is in it, under which names, and
 * how one comes and goes.
 */
#ifndef PST_MODEL_CHECKPOINT_FOLDER_H
#define PST_MODEL_CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>

/* Of a folder of checkpoints with step-N.tmp, and of the longest name in it. */
enum { PST_CHECKPOINT_PATH = 4096, PST_CHECKPOINT_NAME = 64 };

/* DIR/step-N and `rest` (".tmp", "") behind it. Errors: PST_EINVAL: too long. */
pst_status pst__checkpoint_path(char path[PST_CHECKPOINT_PATH], const char *dir,
                                int64_t step, const char *rest, pst_error *err);

/* The file of process `process` of `processes` with its part of "model" or "optimizer";
 * returns name. Source: Hugging Face's names of shards. */
char *pst__checkpoint_file(char name[PST_CHECKPOINT_NAME], const char *part,
                           int process, int processes);

/* The newest step below `below`; -1: there is none. Errors: PST_EIO. */
pst_status pst__checkpoint_newest(const char *dir, int64_t below, int64_t *step,
                                  pst_error *err);

/* An empty DIR/step-N.tmp, whatever was there. Errors: PST_EIO, PST_ENOMEM. */
pst_status pst__checkpoint_make(const pst_env *env, const char *dir, int64_t step,
                                pst_error *err);

/* DIR/step-N.tmp takes its name, for good. */
pst_status pst__checkpoint_publish(const pst_env *env, const char *dir, int64_t step,
                                   pst_error *err);

/* DIR/step-N.tmp goes, as far as that can be. */
void pst__checkpoint_drop(const char *dir, int64_t step);

/* All but the two newest go. That one will not go is a warning to the log. */
void pst__checkpoint_prune(const pst_env *env, const char *dir);

/*
 * Tell the log at its finest level that a save has come to the point `name`, so that a
 * test can end the program there: snapshot, shard-half, shard-synced, before-manifest,
 * manifest-written, before-rename, renamed, pruning.
 */
void pst__checkpoint_point(const pst_env *env, const char *name);

#endif
