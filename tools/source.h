/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - SCHEDULE on a command line: a name, or a CSV file. */
#ifndef PST_TOOLS_SOURCE_H
#define PST_TOOLS_SOURCE_H

#include <penstock/registry.h>
#include <penstock/schedule_csv.h>

/* How a file is to be read; a name has no use for it. Zeroed: as the file says.
 */
typedef struct file_options {
    const char *placement; /* that its rows must show, or NULL                 */
    int dialect;           /* enum pst_csv_dialect                             */
    int lenient;
    int extended;
    int weight_policy; /* enum pst_weight_policy                              */
} file_options;

/*
 * Make or read what `text` means. A file brings its own ranks and microbatches;
 * those in `shape` that are not 0 must agree with it, and so must `file` (may
 * be NULL). "-" is standard input. A file's list is checked (check.h).
 */
pst_status source_schedule(const char *text, const pst_shape *shape,
                           const file_options *file, pst_schedule **out,
                           pst_error *err);

/* The whole of standard input or a file into a list that is not checked yet;
 * `shape` has its microbatches and slices, where they are not 0. */
pst_status source_file(const char *path, const pst_shape *shape,
                       const file_options *file, pst_schedule **out, pst_error *err);

/*
 * Data parallelism: `copies` of *schedule side by side take its place. 0: as many as it
 * has. Errors: as pst_schedule_replicate(); none where it has just so many already.
 */
pst_status source_replicate(pst_schedule **schedule, int copies, pst_error *err);

/* Do the rows put every stage where file->placement does? NULL: yes. */
pst_status source_check_placement(const pst_schedule *schedule,
                                  const file_options *file, pst_error *err);

#endif
