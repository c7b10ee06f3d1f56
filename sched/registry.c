/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c - one row a schedule: the only list of their names. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sched/generator.h"

static const pst_generator *const generators[] = {
    &pst__gpipe,
    &pst__one_f_one_b,
};

enum { GENERATOR_COUNT = sizeof generators / sizeof *generators, MOST_RANKS = 65535 };

static int same_letter(char a, char b)
{
    return (a == '_' ? '-' : tolower((unsigned char)a)) ==
           (b == '_' ? '-' : tolower((unsigned char)b));
}

static int same_name(const char *a, const char *b)
{
    while (*a != 0 && *b != 0 && same_letter(*a, *b)) {
        a++;
        b++;
    }
    return *a == 0 && *b == 0;
}

static const pst_generator *find(const char *name)
{
    for (size_t i = 0; i < GENERATOR_COUNT; i++) {
        const pst_schedule_kind *kind = &generators[i]->kind;
        if (same_name(name, kind->name))
            return generators[i];
        for (const char *const *alias = kind->aliases; *alias != NULL; alias++)
            if (same_name(name, *alias))
                return generators[i];
    }
    return NULL;
}

const pst_schedule_kind *pst_schedule_kind_at(size_t index)
{
    return index < GENERATOR_COUNT ? &generators[index]->kind : NULL;
}

const pst_schedule_kind *pst_schedule_kind_find(const char *name)
{
    const pst_generator *generator = find(name);
    return generator != NULL ? &generator->kind : NULL;
}

static pst_status unknown_name(const char *name, pst_error *err)
{
    char known[256];
    size_t used = 0;
    for (size_t i = 0; i < GENERATOR_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i > 0 ? ", " : "", generators[i]->kind.name);
    return pst_error_set(
        err, PST_EINVAL,
        "'%s' is not a schedule; there are %s, and files ending in .csv", name, known);
}

/* Fill defaults and see whether `generator` can do it. */
static pst_status complete(const pst_generator *generator, const pst_shape *asked,
                           pst_shape *shape, pst_error *err)
{
    const char *name = generator->kind.name;
    *shape = *asked;
    if (shape->chunks == 0)
        shape->chunks = 1;
    if (shape->ranks < 1 || shape->ranks > MOST_RANKS)
        return pst_error_set(err, PST_EINVAL, "%s: %d ranks; it needs 1 to %d", name,
                             shape->ranks, MOST_RANKS);
    if (shape->microbatches < 1)
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d microbatches; it needs at least 1", name,
                             shape->microbatches);
    if (generator->refuse != NULL)
        return generator->refuse(shape, err);
    if (shape->chunks != 1)
        return pst_error_set(
            err, PST_EINVAL,
            "%s: %d chunks a rank; it puts one stage on each rank: use 1 "
            "chunk",
            name, shape->chunks);
    return PST_OK;
}

pst_status pst_schedule_create(const pst_env *env, const char *name,
                               const pst_shape *shape, pst_schedule **out,
                               pst_error *err)
{
    pst_shape full;
    pst_schedule_builder *builder;
    const pst_generator *generator = find(name);
    if (generator == NULL)
        return unknown_name(name, err);
    pst_status status = complete(generator, shape, &full, err);
    if (status == PST_OK)
        status = pst_schedule_builder_create(env, full.ranks, full.ranks * full.chunks,
                                             full.microbatches, &builder, err);
    if (status != PST_OK)
        return status;
    status = generator->fill(builder, &full, err);
    if (status != PST_OK) {
        pst_schedule_builder_destroy(builder);
        return status;
    }
    return pst_schedule_builder_finish(builder, generator->kind.name, NULL, out, err);
}

int pst_schedule_closed_form(const char *name, const pst_shape *shape, double forward,
                             double backward_input, double backward_weight,
                             double latency, pst_closed_form *out)
{
    pst_shape full;
    const pst_generator *generator = find(name);
    if (generator == NULL || generator->closed_form == NULL ||
        complete(generator, shape, &full, NULL) != PST_OK)
        return 0;
    return generator->closed_form(&full, forward, backward_input + backward_weight,
                                  latency, out);
}
