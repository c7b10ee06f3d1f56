/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule_csv.h - schedules in PyTorch's CSV grammar.
 *
 * One line a rank, rank 0 first, cells in execution order; an empty cell is an
 * idle hint. A cell is `stage op [microbatch]` ("2F5", "1REDUCE_GRAD"), or a
 * pair "(5F3;2B1)OVERLAP_F_B". Read strictly: a cell that PyTorch's loader would
 * cut short or accept without a microbatch is refused with its line and number.
 * LF and CRLF line ends are both read. The extended grammar also has EVICT, LOAD and
 * STEP, which PyTorch's loader does not know.
 */
#ifndef PENSTOCK_SCHEDULE_CSV_H
#define PENSTOCK_SCHEDULE_CSV_H

#include <penstock/schedule.h>

PST_BEGIN_DECLS

/* What B and BW mean. */
typedef enum pst_csv_dialect {
    PST_CSV_AUTO, /* the old one where a file has BW, or W beside B without I   */
    PST_CSV_NEW,  /* B is the full backward                                     */
    PST_CSV_OLD   /* before November 2024: B is the input part, BW the full one */
} pst_csv_dialect;

/* How to read. Zeroed means: strictly, and as the file itself says. */
typedef struct pst_csv_options {
    int microbatches; /* m that there must be, of one copy where there are copies
                         side by side; 0: any                                  */
    int replicas;     /* 0: as FILE.csv.meta.json says, else 1                  */
    int slices;       /* as above                                               */
    pst_csv_dialect dialect;
    int extended; /* 1: with EVICT, LOAD and STEP; 0: where the .meta.json says so */
    pst_weight_policy weight_policy; /* of a list with STEP, if not as it says     */
    int lenient;       /* 1: read what PyTorch's loader reads; each thing that it
                          ignores is one warning in the log                     */
    int data_parallel; /* copies side by side; as replicas                     */
} pst_csv_options;

/*
 * Read `path`, and beside it `path`.meta.json where there is one. Stages and
 * microbatches follow from the largest ids. options may be NULL.
 * Errors: PST_EIO, PST_EFORMAT (file, line and cell), PST_ENOMEM. The list may
 *         still be invalid as a schedule: see check.h.
 */
PST_API pst_status pst_schedule_read_csv(const pst_env *env, const char *path,
                                         const pst_csv_options *options,
                                         pst_schedule **out, pst_error *err);

/* As above from memory; `name` stands in messages. */
PST_API pst_status pst_schedule_parse_csv(const pst_env *env, const char *name,
                                          const char *text, size_t bytes,
                                          const pst_csv_options *options,
                                          pst_schedule **out, pst_error *err);

/*
 * Write it, whole or not at all (file.h), with LF line ends. What PyTorch's grammar
 * cannot hold goes to `path`.meta.json, where there is any and `path` is a regular file
 * (an old one is removed otherwise):
 *     {"penstock_schedule": 1, "replicas": 2, "slices": 1}
 * with "data_parallel": D behind them in a list of D copies side by side,
 * and in a list with EVICT, LOAD or STEP, see pst_schedule_is_extended(), also
 *     "extended": true, "weight_policy": "stash" (or "double")
 */
PST_API int pst_schedule_is_extended(const pst_schedule *schedule);
PST_API pst_status pst_schedule_write_csv(const pst_env *env,
                                          const pst_schedule *schedule,
                                          const char *path, pst_error *err);

PST_END_DECLS

#endif
