/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crash.h - a last message where the program ends in a way that nobody asked for: by a
 * signal of a fault, by exit() in a callback, or in a main thread that never returns.
 *
 * One line on standard error says what happened and in which stage, microbatch and
 * operation; the exit status is the signal's, or 1.
 */
#ifndef PST_TOOLS_CRASH_H
#define PST_TOOLS_CRASH_H

#include <stdint.h>

#include <penstock/pipeline.h>

/* From now on, until crash_ignore(): exit() is for main alone. */
void crash_catch(void);
void crash_ignore(void);

/* Whose workers there are; borrowed. NULL: none. */
void crash_watch(const pst_pipeline *pipeline);

/* What the calling thread, the main one, does in which step: "the data reader",
 * constant. Where that takes longer than `seconds` the program ends; 0 or less: it may
 * take for ever. NULL: it is done. */
void crash_enter(const char *what, int64_t step, double seconds);

#endif
