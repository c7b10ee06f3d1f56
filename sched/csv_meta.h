/* SPDX-License-Identifier: BSD-3-Clause */
/* csv_meta.h - FILE.csv.meta.json: what PyTorch's grammar cannot hold. */
#ifndef PST_SCHED_CSV_META_H
#define PST_SCHED_CSV_META_H

#include <penstock/schedule_csv.h>

/*
 * Fill in what `options` leaves open (0) from path's .meta.json, if there is
 * one. Errors: PST_EFORMAT (not such a file, or of a newer form), PST_EIO,
 * PST_ENOMEM.
 */
pst_status pst__csv_meta_read(const pst_env *env, const char *path,
                              pst_csv_options *options, pst_error *err);

/* Write it where `schedule` needs one, else remove one that is there. */
pst_status pst__csv_meta_write(const pst_env *env, const pst_schedule *schedule,
                               const char *path, pst_error *err);

#endif
