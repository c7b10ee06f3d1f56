/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - a schedule from a name or a file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/say.h"
#include "tools/source.h"
#include <penstock/check.h>
#include <penstock/file.h>

static int looks_like_file(const char *text)
{
    size_t length = strlen(text);
    return strcmp(text, "-") == 0 || strchr(text, '/') != NULL ||
           (length > 4 && strcmp(text + length - 4, ".csv") == 0) ||
           (pst_schedule_kind_find(text) == NULL && access(text, F_OK) == 0);
}

static int is_bidirectional(const file_options *file)
{
    return file->placement != NULL && strcmp(file->placement, "bidirectional") == 0;
}

pst_status source_file(const char *path, const pst_shape *shape,
                       const file_options *file, pst_schedule **out, pst_error *err)
{
    static const pst_env env = {.log = say_log};
    const pst_csv_options options = {.microbatches = shape->microbatches,
                                     .slices = shape->slices,
                                     .replicas = is_bidirectional(file) ? 2 : 0,
                                     .dialect = (pst_csv_dialect)file->dialect,
                                     .lenient = file->lenient,
                                     .extended = file->extended,
                                     .weight_policy =
                                         (pst_weight_policy)file->weight_policy};
    if (strcmp(path, "-") != 0)
        return pst_schedule_read_csv(&env, path, &options, out, err);
    char *text;
    size_t bytes;
    pst_status status = pst_file_read(NULL, "/dev/stdin", 0, &text, &bytes, err);
    if (status != PST_OK)
        return status;
    status =
        pst_schedule_parse_csv(&env, "standard input", text, bytes, &options, out, err);
    pst_release(NULL, text);
    return status;
}

/* The rank of `stage` by a placement's name; -1: it has no such name. */
static int placed_rank(const char *placement, int ranks, int stage)
{
    const int chunk = stage / ranks, within = stage % ranks;
    if (strcmp(placement, "loop") == 0)
        return within;
    if (strcmp(placement, "v") == 0 || strcmp(placement, "wave") == 0 ||
        strcmp(placement, "bidirectional") == 0)
        return chunk % 2 == 0 ? within : ranks - 1 - within;
    return -1;
}

pst_status source_check_placement(const pst_schedule *schedule,
                                  const file_options *file, pst_error *err)
{
    const char *placement = file->placement;
    if (placement == NULL)
        return PST_OK;
    const int copies = pst_schedule_data_parallel(schedule);
    const int ranks = pst_schedule_ranks(schedule) / copies,
              stages = pst_schedule_stages(schedule), each = stages / copies;
    const int named = placed_rank(placement, ranks, 0) >= 0;
    const char *rest = placement;
    for (int stage = 0; stage < stages; stage++) {
        char *end;
        long wanted =
            named ? stage / each + copies * placed_rank(placement, ranks, stage % each)
                  : strtol(rest, &end, 10);
        if (!named && (end == rest || (*end != ',' && *end != 0) ||
                       (*end == 0) != (stage + 1 == stages)))
            return pst_error_set(
                err, PST_EINVAL,
                "--placement '%s': loop, v, wave, bidirectional, or %d "
                "ranks with commas between them would work",
                placement, stages);
        if (!named)
            rest = end + 1;
        const int rank = pst_schedule_rank_of(schedule, stage);
        if (rank != wanted)
            return pst_error_set_at(
                err, PST_ESCHEDULE, pst_schedule_file(schedule), 0,
                "stage %d stands on rank %d; --placement %s puts it on "
                "rank %ld",
                stage, rank, placement, wanted);
    }
    return PST_OK;
}

pst_status source_replicate(pst_schedule **schedule, int copies, pst_error *err)
{
    pst_schedule *replicated;
    if (copies == 0 || copies == pst_schedule_data_parallel(*schedule))
        return PST_OK;
    const pst_status status =
        pst_schedule_replicate(NULL, *schedule, copies, &replicated, err);
    if (status != PST_OK)
        return status;
    pst_schedule_destroy(*schedule);
    *schedule = replicated;
    return PST_OK;
}

static pst_status agree(const pst_schedule *schedule, const pst_shape *shape,
                        pst_error *err)
{
    const int copies = pst_schedule_data_parallel(schedule);
    const int ranks = pst_schedule_ranks(schedule) / copies,
              stages = pst_schedule_stages(schedule) / copies;
    if (shape->ranks != 0 && shape->ranks != ranks)
        return pst_error_set_at(err, PST_EINVAL, pst_schedule_file(schedule), 0,
                                "has %d ranks; %d were asked for", ranks, shape->ranks);
    if (shape->chunks != 0 && shape->chunks * ranks != stages)
        return pst_error_set_at(
            err, PST_EINVAL, pst_schedule_file(schedule), 0,
            "has %d stages on %d ranks; %d chunks a rank were asked "
            "for",
            stages, ranks, shape->chunks);
    return PST_OK;
}

pst_status source_schedule(const char *text, const pst_shape *shape,
                           const file_options *file, pst_schedule **out, pst_error *err)
{
    static const file_options none = {.dialect = PST_CSV_AUTO};
    if (file == NULL)
        file = &none;
    if (!looks_like_file(text)) {
        if (file->placement != NULL)
            return pst_error_set(err, PST_EINVAL,
                                 "--placement is for files; %s has its own", text);
        if (file->lenient || file->dialect != PST_CSV_AUTO)
            return pst_error_set(err, PST_EINVAL,
                                 "--lenient and --dialect are for files; %s is a name",
                                 text);
        if (file->weight_policy != PST_VERSIONS_STASH)
            return pst_error_set(err, PST_EINVAL,
                                 "--weight-policy is for files; %s has its own", text);
        return pst_schedule_create(NULL, text, shape, out, err);
    }
    pst_schedule *schedule;
    pst_status status = source_file(text, shape, file, &schedule, err);
    if (status != PST_OK)
        return status;
    status = agree(schedule, shape, err);
    if (status == PST_OK)
        status = pst_schedule_check(NULL, schedule, err);
    if (status == PST_OK)
        status = source_check_placement(schedule, file, err);
    if (status == PST_OK)
        *out = schedule;
    else
        pst_schedule_destroy(schedule);
    return status;
}
