/* SPDX-License-Identifier: BSD-3-Clause */
/* generate.c - sampling tokens, one forward pass a token. */
#include <math.h>
#include <string.h>

#include "model/philox.h"
#include "model/trainer_state.h"

static size_t likeliest(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* A number in [0, 1) for the token at `position`. */
static double draw(uint64_t seed, uint64_t position)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0,
                                 PST_RANDOM_SAMPLE};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t bits[4];
    pst__philox(counter, key, bits);
    return ((double)bits[0] * 4294967296.0 + (double)bits[1]) / 18446744073709551616.0;
}

/* Where the cumulated probability passes `level`. */
static size_t sample(const float *logits, size_t count, double temperature,
                     double level)
{
    const double most = logits[likeliest(logits, count)];
    double sum = 0, passed = 0;
    for (size_t i = 0; i < count; i++)
        sum += exp(((double)logits[i] - most) / temperature);
    for (size_t i = 0; i < count; i++) {
        passed += exp(((double)logits[i] - most) / temperature);
        if (passed > level * sum)
            return i;
    }
    return likeliest(logits, count);
}

static pst_status next_logits(pst_trainer *t, const int32_t *tokens, size_t length,
                              float *logits, pst_error *err)
{
    const size_t context = (size_t)t->model.context;
    const size_t seen = length < context ? length : context;
    t->batch = (pst__batch){.length = seen,
                            .inputs = tokens + length - seen,
                            .logits = logits,
                            .last_position_only = 1};
    return pst__trainer_forward(t, 1, err);
}

pst_status pst_trainer_generate(pst_trainer *trainer, int32_t *tokens, size_t prompt,
                                size_t count, double temperature, uint64_t seed,
                                pst_error *err)
{
    const size_t vocabulary = (size_t)trainer->model.vocabulary;
    if (prompt == 0)
        return pst_error_set(
            err, PST_EINVAL,
            "generation begins with an empty prompt; one token is needed");
    if (!(temperature >= 0))
        return pst_error_set(err, PST_EINVAL, "temperature %g; it must be 0 or more",
                             temperature);
    pst_status status = pst__trainer_check_ids(trainer, 1, prompt, tokens, NULL, err);
    if (status != PST_OK)
        return status;
    float *logits = pst_allocate_array(&trainer->env, vocabulary, sizeof *logits);
    if (!logits)
        return pst_error_no_memory(err, "logits", vocabulary * sizeof *logits);
    for (size_t i = prompt; status == PST_OK && i < prompt + count; i++) {
        status = next_logits(trainer, tokens, i, logits, err);
        if (status == PST_OK)
            tokens[i] = (int32_t)(temperature > 0 ? sample(logits, vocabulary,
                                                           temperature, draw(seed, i))
                                                  : likeliest(logits, vocabulary));
    }
    pst_release(&trainer->env, logits);
    return status;
}
