/* SPDX-License-Identifier: BSD-3-Clause */
/* finite.c - looks at what callbacks make. */
#include <penstock/finite.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

struct pst_finite {
    pst_env env;
    pst_stage *own; /* [stage_count] the tables as they were                   */
};

static uint32_t bits_of(const float *number)
{
    uint32_t bits;
    memcpy(&bits, number, sizeof bits);
    return bits;
}

/* Without branches, so that compilers take many at a time. */
static int all_finite(const float *numbers, size_t count)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= (uint32_t)((bits_of(&numbers[i]) & exponent) == exponent);
    return !bad;
}

static pst_status look(const char *what, const float *numbers, size_t count,
                       pst_error *err)
{
    if (!numbers || all_finite(numbers, count))
        return PST_OK;
    size_t first = 0;
    while (isfinite(numbers[first]))
        first++;
    return pst_error_set(err, PST_ENUMERIC,
                         "its %s is not finite: element %zu of %zu is %s", what, first,
                         count, isnan(numbers[first]) ? "NaN" : "infinite");
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    const pst_stage *own = self;
    const pst_status status = own->forward(own->self, work, err);
    return status != PST_OK
               ? status
               : look("output", work->output, work->output_bytes / sizeof(float), err);
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    const pst_stage *own = self;
    const pst_status status = own->backward_input(own->self, work, err);
    return status != PST_OK ? status
                            : look("input gradient", work->input_grad,
                                   work->input_grad_bytes / sizeof(float), err);
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    const pst_stage *own = self;
    const pst_status status = own->backward_weight(own->self, work, err);
    return status != PST_OK
               ? status
               : look("gradient", work->gradients, own->gradient_count, err);
}

static pst_status reduce(void *self, pst_work *work, pst_error *err)
{
    const pst_stage *own = self;
    return own->reduce(own->self, work, err);
}

static pst_status step(void *self, pst_work *work, pst_error *err)
{
    const pst_stage *own = self;
    return own->step(own->self, work, err);
}

pst_status pst_finite_create(const pst_env *env, pst_stage *stages, int stage_count,
                             pst_finite **out, pst_error *err)
{
    pst_finite *made = pst_allocate(env, sizeof *made);
    pst_stage *own = pst_allocate_array(env, (size_t)stage_count, sizeof *own);
    if (!made || !own) {
        pst_release(env, own);
        pst_release(env, made);
        return pst_error_no_memory(err, "a look at every callback", 0);
    }
    if (env)
        made->env = *env;
    made->own = own;
    for (int s = 0; s < stage_count; s++) {
        own[s] = stages[s];
        stages[s].self = &own[s];
        stages[s].forward = forward;
        stages[s].backward_input = own[s].backward_input ? backward_input : NULL;
        stages[s].backward_weight = own[s].backward_weight ? backward_weight : NULL;
        stages[s].reduce = own[s].reduce ? reduce : NULL;
        stages[s].step = own[s].step ? step : NULL;
    }
    *out = made;
    return PST_OK;
}

void pst_finite_destroy(pst_finite *finite)
{
    if (!finite)
        return;
    const pst_env env = finite->env;
    pst_release(&env, finite->own);
    pst_release(&env, finite);
}
