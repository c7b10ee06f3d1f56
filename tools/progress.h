/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h - how far a run is: one line that is rewritten on a terminal, a line
 * every now and then elsewhere. All on standard error.
 */
#ifndef PST_TOOLS_PROGRESS_H
#define PST_TOOLS_PROGRESS_H

#include <stdint.h>

#include <penstock/trainer.h>

typedef struct progress {
    int quiet;
    int terminal;
    int64_t first_step; /* steps done before this run                          */
    int64_t last_step;  /* steps when it will be done                          */
    double started;     /* seconds, monotonic                                  */
    double shown;       /* when the last line was written                      */
    double loss;        /* smoothed                                            */
    double tokens_per_second;
} progress;

/* Seconds of a clock that never jumps. */
double progress_clock(void);

void progress_start(progress *p, int quiet, int64_t first_step, int64_t last_step);
void progress_step(progress *p, const pst_step_report *report);

/* Leave the terminal's line as it is and go to the next. */
void progress_end(progress *p);

#endif
