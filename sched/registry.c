/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c - one row a schedule: the only list of their names. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sched/generator.h"

static const pst_generator *const generators[] = {
    /* clang-format off: a line each */
    &pst__gpipe,
    &pst__one_f_one_b,
    &pst__eager_one_f_one_b,
    &pst__interleaved,
    &pst__looped_bfs,
    &pst__zb_h1,
    &pst__zb_h2,
    &pst__zb_1p,
    &pst__zb_2p,
    &pst__interleaved_zb,
    &pst__zb_v,
    &pst__zb_v_auto,
    &pst__v_half,
    &pst__v_min,
    &pst__one_f_one_b_v,
    &pst__dualpipe,
    &pst__dualpipev,
    &pst__chimera,
    &pst__hanayo,
    &pst__seq_one_f_one_b,
    &pst__gis,
    &pst__bpipe,
    &pst__pipedream,
    &pst__pipedream_2bw,
    &pst__forward_only,
    /* clang-format on */
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
    char known[640];
    size_t used = 0;
    for (size_t i = 0; i < GENERATOR_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i > 0 ? ", " : "", generators[i]->kind.name);
    return pst_error_set(
        err, PST_EINVAL,
        "'%s' is not a schedule; there are %s, and files ending in .csv", name, known);
}

static pst_status check_chunks(const pst_generator *generator, const pst_shape *shape,
                               pst_error *err)
{
    const char *name = generator->kind.name;
    const int only = generator->chunks > 0 ? generator->chunks : 1;
    if (generator->chunks_most == 0 || generator->chunks_most == only) {
        if (shape->chunks == only)
            return PST_OK;
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d chunk%s a rank; it puts %s on each rank: use %d",
                             name, shape->chunks, shape->chunks == 1 ? "" : "s",
                             only == 1 ? "one stage" : "two stages", only);
    }
    if (shape->chunks < 1 || shape->chunks > MOST_RANKS / shape->ranks ||
        shape->chunks > INT_MAX / (shape->microbatches * shape->slices))
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d chunks on each of %d ranks; there are at most %d "
                             "stages: use 1 to %d",
                             name, shape->chunks, shape->ranks, MOST_RANKS,
                             MOST_RANKS / shape->ranks);
    return PST_OK;
}

/* What the shape asks for that the kind has no use for. */
static pst_status check_options(const pst_generator *generator, const pst_shape *shape,
                                pst_error *err)
{
    const struct {
        unsigned option;
        int given;
        const char *name;
    } rows[] = {
        {PST_SHAPE_BACKWARD_ORDER, shape->backward_order != PST_ORDER_DEFAULT,
         "choice of the backward order"},
        {PST_SHAPE_GROUP, shape->group != 0, "groups"},
        {PST_SHAPE_WARMUP_EXTRA, shape->warmup_extra != 0, "longer warm-up"},
        {PST_SHAPE_PAIRS, shape->pairs != 0, "pairs"},
        {PST_SHAPE_SLICES, shape->slices > 1, "slices"},
        {PST_SHAPE_WEIGHTS, shape->weights != PST_WEIGHTS_DEFAULT,
         "choice of the order of W"},
        {PST_SHAPE_MEMORY, shape->memory_limit > 0, "memory limit"},
    };
    char takers[320];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t used = 0;
        if (!rows[i].given || (generator->options & rows[i].option))
            continue;
        for (size_t k = 0; k < GENERATOR_COUNT && used < sizeof takers; k++)
            if (generators[k]->options & rows[i].option)
                used +=
                    (size_t)snprintf(takers + used, sizeof takers - used, "%s%s",
                                     used > 0 ? ", " : "", generators[k]->kind.name);
        return pst_error_set(err, PST_EINVAL, "%s has no %s; %s ha%s",
                             generator->kind.name, rows[i].name, takers,
                             strchr(takers, ',') ? "ve" : "s");
    }
    return PST_OK;
}

/* Fill defaults and see whether `generator` can do it. */
static pst_status complete(const pst_generator *generator, const pst_shape *asked,
                           pst_shape *shape, pst_error *err)
{
    const char *name = generator->kind.name;
    *shape = *asked;
    if (shape->chunks == 0)
        shape->chunks = generator->chunks > 0 ? generator->chunks : 1;
    if (shape->slices == 0)
        shape->slices = generator->options & PST_SHAPE_SLICES ? 2 : 1;
    if (shape->ranks < 1 || shape->ranks > MOST_RANKS)
        return pst_error_set(err, PST_EINVAL, "%s: %d ranks; it needs 1 to %d", name,
                             shape->ranks, MOST_RANKS);
    if (shape->microbatches < 1)
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d microbatches; it needs at least 1", name,
                             shape->microbatches);
    if (shape->group < 0 || shape->warmup_extra < 0 || shape->slices < 1 ||
        shape->slices > INT_MAX / shape->microbatches)
        return pst_error_set(err, PST_EINVAL,
                             "%s: group %d, %d extra forwards, %d slices; none may be "
                             "below 0, or beyond 2^31 units",
                             name, shape->group, shape->warmup_extra, shape->slices);
    if (!(shape->memory_limit >= 0) || !(shape->freed_at_input >= 0) ||
        shape->freed_at_input > 1)
        return pst_error_set(
            err, PST_EINVAL,
            "%s: a memory limit of %g, of which I frees %g; neither may "
            "be below 0, nor the second above 1",
            name, shape->memory_limit, shape->freed_at_input);
    pst_status status = check_options(generator, shape, err);
    if (shape->pairs && shape->warmup_extra == 0)
        shape->warmup_extra = 1; /* else the last rank's first pair waits for itself */
    if (status == PST_OK)
        status = check_chunks(generator, shape, err);
    if (status == PST_OK && generator->refuse != NULL)
        status = generator->refuse(shape, err);
    return status;
}

static pst_status fill_rows(const pst_generator *generator, const pst_shape *shape,
                            pst_schedule_builder *builder, pst_error *err)
{
    if (generator->fill_all != NULL)
        return generator->fill_all(builder, shape, err);
    for (int rank = 0; rank < shape->ranks; rank++) {
        pst_row row = {.builder = builder,
                       .rank = rank,
                       .below = shape->microbatches * shape->slices,
                       .err = err};
        generator->fill(&row, shape);
        if (row.status != PST_OK)
            return row.status;
    }
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
    const int replicas = generator->replicas > 0 ? generator->replicas : 1;
    if (status == PST_OK)
        status = pst_schedule_builder_create(env, full.ranks, full.ranks * full.chunks,
                                             full.microbatches * full.slices / replicas,
                                             &builder, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_builder_set_replicas(builder, replicas, err);
    if (status == PST_OK)
        status = pst_schedule_builder_set_slices(builder, full.slices, err);
    pst_schedule_builder_set_weight_policy(builder, generator->weight_policy);
    if (status == PST_OK)
        status = fill_rows(generator, &full, builder, err);
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
    const pst_unit_costs cost = {forward, backward_input, backward_weight, latency};
    return generator->closed_form(&full, &cost, out);
}
