/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - a schedule from a name or a file. */
#include <string.h>
#include <unistd.h>

#include <penstock/check.h>
#include <penstock/file.h>
#include <penstock/schedule_csv.h>

#include "tools/source.h"

static int looks_like_file(const char *text)
{
    size_t length = strlen(text);
    return strcmp(text, "-") == 0 || strchr(text, '/') != NULL ||
           (length > 4 && strcmp(text + length - 4, ".csv") == 0) ||
           (pst_schedule_kind_find(text) == NULL && access(text, F_OK) == 0);
}

pst_status source_file(const char *path, int microbatches, pst_schedule **out,
                       pst_error *err)
{
    if (strcmp(path, "-") != 0)
        return pst_schedule_read_csv(NULL, path, microbatches, out, err);
    char *text;
    size_t bytes;
    pst_status status = pst_file_read(NULL, "/dev/stdin", 0, &text, &bytes, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_parse_csv(NULL, "standard input", text, bytes, microbatches,
                                    out, err);
    pst_release(NULL, text);
    return status;
}

static pst_status agree(const pst_schedule *schedule, const pst_shape *shape,
                        pst_error *err)
{
    int ranks = pst_schedule_ranks(schedule), stages = pst_schedule_stages(schedule);
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

pst_status source_schedule(const char *text, const pst_shape *shape, pst_schedule **out,
                           pst_error *err)
{
    if (!looks_like_file(text))
        return pst_schedule_create(NULL, text, shape, out, err);
    pst_schedule *schedule;
    pst_status status = source_file(text, shape->microbatches, &schedule, err);
    if (status != PST_OK)
        return status;
    status = agree(schedule, shape, err);
    if (status == PST_OK)
        status = pst_schedule_check(NULL, schedule, err);
    if (status == PST_OK)
        *out = schedule;
    else
        pst_schedule_destroy(schedule);
    return status;
}
