/* SPDX-License-Identifier: BSD-3-Clause */
/* task.c - a thread, and a word that says whether it is through. */
#include <penstock/task.h>

#include "stages/thread.h"

struct pst_task {
    pst_env env;
    pst_thread thread;
    void (*function)(void *argument);
    void *argument;
    pst_monitor monitor;
    int done; /* guarded by the monitor                                        */
};

static void *run(void *argument)
{
    pst_task *task = argument;
    task->function(task->argument);
    pst__monitor_enter(&task->monitor);
    task->done = 1;
    pst__monitor_leave(&task->monitor);
    return NULL;
}

pst_status pst_task_start(const pst_env *env, const char *name,
                          void (*function)(void *argument), void *argument,
                          pst_task **out, pst_error *err)
{
    pst_task *task = pst_allocate(env, sizeof *task);
    if (task == NULL)
        return pst_error_no_memory(err, "a task", sizeof *task);
    if (env != NULL)
        task->env = *env;
    task->function = function;
    task->argument = argument;
    pst__monitor_init(&task->monitor);
    const pst_status status = pst__thread_start(&task->thread, run, task, name, err);
    if (status == PST_OK) {
        *out = task;
        return PST_OK;
    }
    pst__monitor_fini(&task->monitor);
    pst_release(env, task);
    return status;
}

int pst_task_done(pst_task *task)
{
    pst__monitor_enter(&task->monitor);
    const int done = task->done;
    pst__monitor_leave(&task->monitor);
    return done;
}

void pst_task_wait(pst_task *task)
{
    if (task == NULL)
        return;
    pst__thread_join(&task->thread);
    pst__monitor_fini(&task->monitor);
    const pst_env env = task->env;
    pst_release(&env, task);
}
