/* SPDX-License-Identifier: BSD-3-Clause */
/* train_faults.c - puts faults and checks around stages and the data reader. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tools/say.h"
#include "tools/train_faults.h"

pst_status train_faults_check(const train_faults *faults, const pst_schedule *schedule,
                              pst_error *err)
{
    const pipetrain_settings *s = faults->settings;
    const int microbatches = pst_schedule_microbatches(schedule);
    for (int i = 0; i < s->fault_count; i++)
        if (s->fault[i].microbatch >= microbatches)
            return pst_error_set(
                err, PST_EINVAL,
                "a fault in microbatch %d; the microbatches are 0 to %d",
                s->fault[i].microbatch, microbatches - 1);
    return PST_OK;
}

pst_status train_faults_decorate(void *user, pst_stage *stages, int count,
                                 pst_error *err)
{
    train_faults *f = user;
    const pipetrain_settings *s = f->settings;
    pst_status status = PST_OK;
    if (s->fault_count > 0)
        status = pst_faults_create(NULL, s->fault, s->fault_count, stages, count,
                                   &f->faults, err);
    if (status == PST_OK && s->check_finite)
        status = pst_finite_create(NULL, stages, count, &f->finite, err);
    return status;
}

pst_status train_faults_data(train_faults *faults, int64_t step, pst_error *err)
{
    const pipetrain_settings *s = faults->settings;
    for (int i = 0; i < s->fault_count; i++) {
        const pst_fault *fault = &s->fault[i];
        if (fault->op != PST_FAULT_DATA || faults->data_done[i] ||
            (fault->step != 0 && fault->step != step))
            continue;
        faults->data_done[i] = 1;
        pst_error own = PST_ERROR_INIT;
        const pst_status status = pst_fault_strike(fault, &own);
        if (status != PST_OK)
            return pst_error_set(err, status, "data reader, step %" PRId64 ": %s", step,
                                 own.text);
    }
    return PST_OK;
}

void train_faults_hear(void *user, pst_log_level level, const char *text)
{
    static const char start[] = "save point ";
    static int64_t times; /* one save at a time tells of its points */
    const size_t length = sizeof start - 1;
    if (level != PST_LOG_TRACE || strncmp(text, start, length) != 0) {
        say_log(user, level, text);
        return;
    }
    const char *where = getenv("PENSTOCK_KILL_AT"), *point = text + length;
    if (where == NULL || strncmp(where, point, strlen(point)) != 0)
        return;
    const char *rest = where + strlen(point);
    if (*rest != '\0' && *rest != ':')
        return;
    times++;
    if (*rest == '\0' || strtoll(rest + 1, NULL, 10) == times)
        raise(SIGKILL);
}

void train_faults_warn(const train_faults *faults)
{
    const pipetrain_settings *s = faults->settings;
    int left = faults->faults != NULL ? pst_faults_left(faults->faults) : 0;
    for (int i = 0; i < s->fault_count; i++)
        left += s->fault[i].op == PST_FAULT_DATA && !faults->data_done[i];
    if (left > 0)
        say_warning("%d of %d faults never came: their steps were not run", left,
                    s->fault_count);
}

void train_faults_close(train_faults *faults)
{
    pst_finite_destroy(faults->finite);
    pst_faults_destroy(faults->faults);
}
