/* SPDX-License-Identifier: BSD-3-Clause */
/* csv_meta.h - FILE.csv.meta.json: what PyTorch's grammar cannot hold. */
#ifndef PST_SCHED_CSV_META_H
#define PST_SCHED_CSV_META_H

#include <penstock/file.h>
#include <penstock/schedule_csv.h>

/*
 * Fill in what `options` leaves open (0) from path's .meta.json, if there is
 * one. Errors: PST_EFORMAT (not such a file, or of a newer form), PST_EIO,
 * PST_ENOMEM.
 */
pst_status pst__csv_meta_read(const pst_env *env, const char *path,
                              pst_csv_options *options, pst_error *err);

/* What is to become of path's file once the list itself is in its place. */
typedef struct pst__csv_meta {
    const pst_env *env;
    char *path;              /* NULL: nothing                                   */
    pst_file_writer *writer; /* NULL: one that is there goes                    */
} pst__csv_meta;

/* Write it where `schedule` needs one, but not into its place. All that may want
 * memory is done here, so that a list is not left without its other half. */
pst_status pst__csv_meta_begin(const pst_env *env, const pst_schedule *schedule,
                               const char *path, pst__csv_meta *meta, pst_error *err);

/* Into its place, or remove one that is there. Either of these ends `meta`. */
pst_status pst__csv_meta_commit(pst__csv_meta *meta, pst_error *err);
void pst__csv_meta_discard(pst__csv_meta *meta);

#endif
