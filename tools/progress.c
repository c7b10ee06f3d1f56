/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - how far a run is. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tools/progress.h"

enum { BAR_WIDTH = 24 };

/* Seconds between two lines: often enough to watch, seldom enough to read. */
static const double terminal_pause = 0.2, file_pause = 10.0;

double progress_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void progress_start(progress *p, int quiet, int64_t first_step, int64_t last_step)
{
    *p = (progress){.quiet = quiet,
                    .terminal = isatty(STDERR_FILENO),
                    .first_step = first_step,
                    .last_step = last_step,
                    .started = progress_clock()};
}

static void show(progress *p, const pst_step_report *report, double now)
{
    double rate = (double)(report->step - p->first_step) / (now - p->started);
    double left = (double)(p->last_step - report->step) / rate;
    if (p->terminal) {
        char bar[BAR_WIDTH + 1];
        int64_t full = p->last_step > 0 ? report->step * BAR_WIDTH / p->last_step : 0;
        for (int i = 0; i < BAR_WIDTH; i++)
            bar[i] = i < full ? '#' : '.';
        bar[BAR_WIDTH] = 0;
        fprintf(stderr,
                "\r[%s] step %" PRId64 "/%" PRId64
                "  loss %.3f  %.0f tokens/s  %.0f s left \x1b[K",
                bar, report->step, p->last_step, p->loss, p->tokens_per_second, left);
    } else {
        fprintf(stderr,
                "step %" PRId64 "/%" PRId64
                "  loss %.3f  lr %.2e  norm %.2f  %.0f tokens/s  %.0f s left\n",
                report->step, p->last_step, p->loss, report->lr, report->gradient_norm,
                p->tokens_per_second, left);
    }
}

void progress_step(progress *p, const pst_step_report *report)
{
    if (p->quiet)
        return;
    double speed = (double)report->tokens / report->seconds;
    int first = p->tokens_per_second == 0;
    p->loss = first ? report->loss : 0.95 * p->loss + 0.05 * report->loss;
    p->tokens_per_second = first ? speed : 0.95 * p->tokens_per_second + 0.05 * speed;
    double now = progress_clock();
    double pause = p->terminal ? terminal_pause : file_pause;
    if (now - p->shown < pause && report->step != p->last_step && !first)
        return;
    p->shown = now;
    show(p, report, now);
}

void progress_end(progress *p)
{
    if (!p->quiet && p->terminal && p->tokens_per_second != 0)
        fputc('\n', stderr);
}
