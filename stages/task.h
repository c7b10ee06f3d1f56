/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * task.h - one function on a thread of its own, while its caller goes on.
 *
 * For work that waits on a disk. Its thread is bound to no core and blocks all signals
 * but those of its own faults.
 */
#ifndef PENSTOCK_TASK_H
#define PENSTOCK_TASK_H

#include <penstock/env.h>
#include <penstock/error.h>

PST_BEGIN_DECLS

typedef struct pst_task pst_task;

/*
 * Call function(argument) on a thread of the given name (15 letters of it).
 * Owns:   *out is the caller's until pst_task_wait().
 * Errors: PST_ENOMEM, PST_ESYSTEM.
 */
PST_API pst_status pst_task_start(const pst_env *env, const char *name,
                                  void (*function)(void *argument), void *argument,
                                  pst_task **out, pst_error *err);

/* 1: the function has returned, and what it wrote is seen. Never waits for it. */
PST_API int pst_task_done(pst_task *task);

/* Wait until the function has returned and destroy the task; NULL allowed. */
PST_API void pst_task_wait(pst_task *task);

PST_END_DECLS

#endif
