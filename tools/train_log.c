/* SPDX-License-Identifier: BSD-3-Clause */
/* train_log.c - --log FILE.jsonl. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/train_log.h"

struct train_log {
    FILE *file;
    char *path;
};

static pst_status refused(const char *path, pst_error *err)
{
    return pst_error_set(err, PST_EIO, "%s: %s", path, strerror(errno));
}

pst_status train_log_open(const char *path, int append, train_log **out, pst_error *err)
{
    train_log *log = calloc(1, sizeof *log);
    if (log == NULL || (log->path = strdup(path)) == NULL) {
        train_log_close(log);
        return pst_error_no_memory(err, "the log", strlen(path));
    }
    log->file = fopen(path, append ? "a" : "w");
    if (log->file == NULL) {
        refused(path, err);
        train_log_close(log);
        return PST_EIO;
    }
    *out = log;
    return PST_OK;
}

static pst_status write_line(train_log *log, const pst_step_report *report,
                             const char *more, pst_error *err)
{
    double speed = report->seconds > 0 ? (double)report->tokens / report->seconds : 0;
    int printed = fprintf(log->file,
                          "{\"step\": %" PRId64 ", \"loss\": %.9g, "
                          "\"gradient_norm\": %.9g, \"lr\": %.9g, \"tokens\": %" PRId64
                          ", \"seconds\": %.6g, \"tokens_per_second\": %.6g, "
                          "\"makespan\": %.6g, \"bubble\": %.4g%s}\n",
                          report->step, report->loss, report->gradient_norm, report->lr,
                          report->tokens, report->seconds, speed, report->makespan,
                          report->bubble, more);
    if (printed < 0 || fflush(log->file) != 0)
        return refused(log->path, err);
    return PST_OK;
}

pst_status train_log_step(train_log *log, const pst_step_report *report, pst_error *err)
{
    return write_line(log, report, "", err);
}

pst_status train_log_val(train_log *log, const pst_step_report *last, double val_loss,
                         pst_error *err)
{
    char more[64];
    snprintf(more, sizeof more, ", \"val_loss\": %.9g", val_loss);
    return write_line(log, last, more, err);
}

void train_log_close(train_log *log)
{
    if (log == NULL)
        return;
    if (log->file != NULL)
        fclose(log->file);
    free(log->path);
    free(log);
}
