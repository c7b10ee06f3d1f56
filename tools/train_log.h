/* SPDX-License-Identifier: BSD-3-Clause */
/* train_log.h - --log FILE.jsonl: one JSON object a step, and a last one with val_loss.
 */
#ifndef PST_TOOLS_TRAIN_LOG_H
#define PST_TOOLS_TRAIN_LOG_H

#include <penstock/trainer.h>

typedef struct train_log train_log;

/* `append`: keep what is there (a resumed run). Errors: PST_EIO, PST_ENOMEM. */
pst_status train_log_open(const char *path, int append, train_log **out,
                          pst_error *err);

/* Each line is flushed, so that a reader sees it and a kill loses none. */
pst_status train_log_step(train_log *log, const pst_step_report *report,
                          pst_error *err);

/* The last line: the last step's figures again, and the loss over the held-out part. */
pst_status train_log_val(train_log *log, const pst_step_report *last, double val_loss,
                         pst_error *err);

/* NULL allowed. */
void train_log_close(train_log *log);

#endif
