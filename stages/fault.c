/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.c - what a fault does, and when it is due. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <penstock/fault.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A stage with faults, in the place of its own `self`. */
typedef struct struck_stage {
    pst_faults *owner;
    pst_stage own;
} struck_stage;

typedef struct planned {
    pst_fault fault;
    bool done; /* belongs to the stage's worker                                */
} planned;

struct pst_faults {
    pst_env env;
    planned *plan; /* [count]                                                  */
    int count;
    struck_stage *stages; /* [stage_count]                              */
};

/* ---- what happens ------------------------------------------------------------- */

static void sleep_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static void store_to_nowhere(void)
{
    volatile uintptr_t address = 64; /* volatile: so that no compiler sees through it */
    *(volatile int *)address = 1;
}

static int use_up_stack(volatile const int *go_on)
{
    volatile char frame[4096];
    frame[0] = 1;
    return *go_on ? use_up_stack(go_on) + frame[0] : 0;
}

pst_status pst_fault_strike(const pst_fault *fault, pst_error *err)
{
    switch (fault->kind) {
    case PST_FAULT_ERROR:
        return pst_error_set(err, PST_ECALLBACK, "an error on purpose");
    case PST_FAULT_ABORT:
        abort();
    case PST_FAULT_EXIT:
        exit(0);
    case PST_FAULT_SEGV:
        store_to_nowhere();
        break;
    case PST_FAULT_HANG:
        for (;;)
            sleep_for(1000);
    case PST_FAULT_SLOW:
        sleep_for(fault->seconds);
        break;
    case PST_FAULT_OVERFLOW: {
        volatile int go_on = 1; /* volatile: the recursion might end, to a compiler */
        use_up_stack(&go_on);
        break;
    }
    case PST_FAULT_NAN:
        break;
    }
    return PST_OK;
}

static bool fill(void *floats, size_t bytes)
{
    if (!floats || bytes == 0)
        return false;
    memset(floats, 0xff, bytes); /* a NaN in every float */
    return true;
}

/* After the callback. */
static void fill_products(const pst_stage *own, pst_fault_op op, pst_work *work)
{
    switch (op) {
    case PST_FAULT_FORWARD:
        if (!fill(work->output, work->output_bytes) &&
            !fill(work->saved_for_input, own->saved_for_input_bytes))
            fill(work->saved_for_weight, own->saved_for_weight_bytes);
        break;
    case PST_FAULT_BACKWARD_INPUT:
        if (!fill(work->input_grad, work->input_grad_bytes))
            fill(work->kept, own->kept_bytes);
        break;
    case PST_FAULT_BACKWARD_WEIGHT:
        fill(work->gradients, own->gradient_count * sizeof(float));
        break;
    case PST_FAULT_STEP:
        fill(work->weights, own->weight_bytes);
        break;
    default:
        break;
    }
}

/* Does the callback make anything that could be filled? As fill_products(). */
static bool makes_something(const pst_stage *own, pst_fault_op op)
{
    switch (op) {
    case PST_FAULT_FORWARD:
        return own->output_bytes || own->saved_for_input_bytes ||
               own->saved_for_weight_bytes;
    case PST_FAULT_BACKWARD_INPUT:
        return own->input_bytes || own->kept_bytes;
    case PST_FAULT_STEP:
        return own->weight_bytes;
    default:
        return own->gradient_count;
    }
}

/* ---- when --------------------------------------------------------------------- */

static planned *due(pst_faults *faults, pst_fault_op op, const pst_work *work)
{
    for (int i = 0; i < faults->count; i++) {
        planned *p = &faults->plan[i];
        const pst_fault *f = &p->fault;
        /* `done` last: until the stage fits it is another worker's. */
        if (f->op == op && f->stage == work->stage &&
            f->microbatch == work->microbatch &&
            (f->step == 0 || f->step == work->iteration + 1) && !p->done)
            return p;
    }
    return NULL;
}

static pst_status call(struck_stage *s, pst_fault_op op, pst_stage_function function,
                       pst_work *work, pst_error *err)
{
    planned *p = work->training ? due(s->owner, op, work) : NULL;
    pst_status status = PST_OK;
    if (!p)
        return function(s->own.self, work, err);
    p->done = true;
    if (p->fault.kind != PST_FAULT_NAN)
        status = pst_fault_strike(&p->fault, err);
    else if (op == PST_FAULT_REDUCE)
        fill(work->gradients, s->own.gradient_count * sizeof(float));
    if (status == PST_OK)
        status = function(s->own.self, work, err);
    if (status == PST_OK && p->fault.kind == PST_FAULT_NAN)
        fill_products(&s->own, op, work);
    return status;
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    struck_stage *s = self;
    return call(s, PST_FAULT_FORWARD, s->own.forward, work, err);
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    struck_stage *s = self;
    return call(s, PST_FAULT_BACKWARD_INPUT, s->own.backward_input, work, err);
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    struck_stage *s = self;
    return call(s, PST_FAULT_BACKWARD_WEIGHT, s->own.backward_weight, work, err);
}

static pst_status reduce(void *self, pst_work *work, pst_error *err)
{
    struck_stage *s = self;
    return call(s, PST_FAULT_REDUCE, s->own.reduce, work, err);
}

static pst_status step(void *self, pst_work *work, pst_error *err)
{
    struck_stage *s = self;
    return call(s, PST_FAULT_STEP, s->own.step, work, err);
}

/* ---- putting them in place ---------------------------------------------------- */

static pst_stage_function own_callback(const pst_stage *stage, pst_fault_op op)
{
    switch (op) {
    case PST_FAULT_FORWARD:
        return stage->forward;
    case PST_FAULT_BACKWARD_INPUT:
        return stage->backward_input;
    case PST_FAULT_BACKWARD_WEIGHT:
        return stage->backward_weight;
    case PST_FAULT_REDUCE:
        return stage->reduce;
    default:
        return stage->step;
    }
}

static pst_status check(const pst_fault *fault, const pst_stage *stages,
                        int stage_count, pst_error *err)
{
    static const char *const names[] = {"forward", "backward-input", "backward-weight",
                                        "reduce", "step"};
    if (fault->stage < 0 || fault->stage >= stage_count)
        return pst_error_set(err, PST_EINVAL,
                             "a fault in stage %d; the stages are 0 to %d",
                             fault->stage, stage_count - 1);
    const pst_stage *own = &stages[fault->stage];
    if (!own_callback(own, fault->op))
        return pst_error_set(err, PST_EINVAL,
                             "a fault in the %s of stage %d, which has none",
                             names[fault->op], fault->stage);
    if (fault->kind == PST_FAULT_NAN && !makes_something(own, fault->op))
        return pst_error_set(err, PST_EINVAL,
                             "a NaN in the %s of stage %d, which makes nothing there",
                             names[fault->op], fault->stage);
    return PST_OK;
}

static void wrap(struck_stage *s, pst_stage *stage)
{
    stage->self = s;
    stage->forward = forward;
    stage->backward_input = s->own.backward_input ? backward_input : NULL;
    stage->backward_weight = s->own.backward_weight ? backward_weight : NULL;
    stage->reduce = s->own.reduce ? reduce : NULL;
    stage->step = s->own.step ? step : NULL;
}

pst_status pst_faults_create(const pst_env *env, const pst_fault *faults, int count,
                             pst_stage *stages, int stage_count, pst_faults **out,
                             pst_error *err)
{
    for (int i = 0; i < count; i++) {
        pst_status status = faults[i].op == PST_FAULT_DATA
                                ? PST_OK
                                : check(&faults[i], stages, stage_count, err);
        if (status != PST_OK)
            return status;
    }
    pst_faults *made = pst_allocate(env, sizeof *made);
    if (!made)
        return pst_error_no_memory(err, "faults", sizeof *made);
    if (env)
        made->env = *env;
    made->plan = pst_allocate_array(env, (size_t)count, sizeof *made->plan);
    made->stages = pst_allocate_array(env, (size_t)stage_count, sizeof *made->stages);
    if (!made->plan || !made->stages) {
        pst_faults_destroy(made);
        return pst_error_no_memory(err, "faults", 0);
    }
    for (int s = 0; s < stage_count; s++)
        made->stages[s] = (struck_stage){.owner = made, .own = stages[s]};
    for (int i = 0; i < count; i++) {
        if (faults[i].op == PST_FAULT_DATA)
            continue;
        made->plan[made->count++].fault = faults[i];
        wrap(&made->stages[faults[i].stage], &stages[faults[i].stage]);
    }
    *out = made;
    return PST_OK;
}

int pst_faults_left(const pst_faults *faults)
{
    int left = 0;
    for (int i = 0; i < faults->count; i++)
        left += !faults->plan[i].done;
    return left;
}

void pst_faults_destroy(pst_faults *faults)
{
    if (!faults)
        return;
    const pst_env env = faults->env;
    pst_release(&env, faults->plan);
    pst_release(&env, faults->stages);
    pst_release(&env, faults);
}
