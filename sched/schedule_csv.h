/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule_csv.h - schedules in PyTorch's CSV grammar.
 *
 * One line a rank, rank 0 first, cells in execution order; an empty cell is an
 * idle hint. A cell is `stage op [microbatch]` ("2F5", "1REDUCE_GRAD"), or a
 * pair "(5F3;2B1)OVERLAP_F_B". Read strictly: a cell that PyTorch's loader would
 * cut short or accept without a microbatch is refused with its line and number.
 * LF and CRLF line ends are both read.
 */
#ifndef PENSTOCK_SCHEDULE_CSV_H
#define PENSTOCK_SCHEDULE_CSV_H

#include <penstock/schedule.h>

PST_BEGIN_DECLS

/*
 * Read `path`. Stages and microbatches follow from the largest ids. `microbatches`
 * > 0 must agree with the file.
 * Errors: PST_EIO, PST_EFORMAT (file, line and cell), PST_ENOMEM. The list may
 *         still be invalid as a schedule: see check.h.
 */
PST_API pst_status pst_schedule_read_csv(const pst_env *env, const char *path,
                                         int microbatches, pst_schedule **out,
                                         pst_error *err);

/* As above from memory; `name` stands in messages. */
PST_API pst_status pst_schedule_parse_csv(const pst_env *env, const char *name,
                                          const char *text, size_t bytes,
                                          int microbatches, pst_schedule **out,
                                          pst_error *err);

/* Write it, whole or not at all (file.h), with LF line ends. */
PST_API pst_status pst_schedule_write_csv(const pst_env *env,
                                          const pst_schedule *schedule,
                                          const char *path, pst_error *err);

PST_END_DECLS

#endif
