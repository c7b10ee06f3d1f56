/* SPDX-License-Identifier: BSD-3-Clause */
/* report_json.c - reports as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/report_json.h>

#include "sched/careful_json.h"

static json_t *whole_numbers(const int *values, int count)
{
    json_t *array = json_array();
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed |= json_array_append_new(array, json_integer(values[i]));
    return pst__json_checked(array, failed);
}

static json_t *real_numbers(const double *values, int count)
{
    json_t *array = json_array();
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed |= json_array_append_new(array, json_real(values[i]));
    return pst__json_checked(array, failed);
}

/* A name or message as a JSON string, which is UTF-8: other bytes become '?'. */
static json_t *words(const char *text)
{
    json_t *string = json_string(text);
    char *copy = string == NULL ? strdup(text) : NULL;
    for (char *c = copy; c != NULL && *c != 0; c++)
        *c = (unsigned char)*c < 128 ? *c : '?';
    if (copy != NULL)
        string = json_string(copy);
    free(copy);
    return string;
}

/* The text of `root`, which is given up, in the caller's kind of memory. */
static pst_status finish(const pst_env *env, json_t *root, char **text, pst_error *err)
{
    char *dumped = pst__json_dump(env, root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (dumped == NULL)
        return pst_error_no_memory(err, "a report", 0);
    *text = dumped;
    return PST_OK;
}

/* Those that carried anything. */
static json_t *links(const pst_simulation *s)
{
    json_t *array = json_array();
    int failed = 0;
    for (int i = 0; i < s->hosts * s->hosts; i++)
        if (s->link_busy[i] > 0)
            failed |= json_array_append_new(
                array, json_pack("{s:i, s:i, s:f, s:f}", "from", i / s->hosts, "to",
                                 i % s->hosts, "busy", s->link_busy[i], "longest_wait",
                                 s->link_wait[i]));
    return pst__json_checked(array, failed);
}

pst_status pst_report_simulation(const pst_env *env, const char *schedule,
                                 const pst_simulation *s, const pst_closed_form *form,
                                 char **text, pst_error *err)
{
    json_t *root = json_pack(
        "{s:o, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:{s:f, s:f, s:f}, s:o, s:o, s:i}",
        "schedule", words(schedule), "ranks", s->ranks, "stages", s->stages,
        "microbatches", s->microbatches, "iterations", s->iterations, "makespan",
        s->makespan, "longest_rank", s->longest_rank, "ideal", s->ideal, "bubble",
        "of_makespan", s->bubble.of_makespan, "of_ideal", s->bubble.of_ideal,
        "longest_rank", s->bubble.longest_rank, "busy", real_numbers(s->busy, s->ranks),
        "peak_activations", whole_numbers(s->peak_activations, s->ranks),
        "max_queue_depth", s->max_queue_depth);
    int failed = 0;
    if (s->updates > 0) {
        failed |= json_object_set_new(root, "updates", json_integer(s->updates));
        failed |= json_object_set_new(root, "weight_versions",
                                      whole_numbers(s->weight_versions, s->ranks));
    }
    if (s->hosts > 0) {
        failed |= json_object_set_new(root, "hosts", json_integer(s->hosts));
        failed |= json_object_set_new(root, "links", links(s));
    }
    if (form != NULL)
        failed |= json_object_set_new(
            root, "closed_form",
            json_pack("{s:f, s:i, s:i, s:s}", "makespan", form->makespan,
                      "peak_first_rank", form->peak_first_rank, "peak_last_rank",
                      form->peak_last_rank, "formula", form->formula));
    return finish(env, pst__json_checked(root, failed), text, err);
}

pst_status pst_report_check(const pst_env *env, const pst_schedule *schedule,
                            const pst_error *found, const pst_error *rendezvous,
                            int least_capacity, char **text, pst_error *err)
{
    json_t *root;
    if (found->status != PST_OK)
        root = json_pack("{s:b, s:s, s:o, s:i, s:o}", "valid", 0, "status",
                         pst_status_text(found->status), "file", words(found->file),
                         "line", found->line, "message", words(found->text));
    else
        root = json_pack(
            "{s:b, s:i, s:i, s:i, s:i, s:i, s:I, s:o, s:i}", "valid", 1, "ranks",
            pst_schedule_ranks(schedule), "stages", pst_schedule_stages(schedule),
            "microbatches", pst_schedule_total_microbatches(schedule), "replicas",
            pst_schedule_replicas(schedule), "slices", pst_schedule_slices(schedule),
            "actions", (json_int_t)pst_schedule_action_count(schedule), "rendezvous",
            rendezvous->status != PST_OK ? words(rendezvous->text) : json_null(),
            "least_capacity", least_capacity);
    return finish(env, root, text, err);
}
