/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule_csv.c - PyTorch's schedule grammar, read strictly and written.
 *
 * A file is parsed twice: once for its shape, once into a builder. Ids are bounded by
 * the number of actions, so memory stays in proportion to the file.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <penstock/file.h>
#include <penstock/schedule_csv.h>

#include "sched/csv_meta.h"

enum { MOST_IDS = 65535, FILE_LIMIT = 1 << 30, SHOWN = 40 };

/* A stretch of the text. */
typedef struct span {
    const char *at;
    size_t length;
} span;

/* Where in the file we are, and what has been seen. */
typedef struct reading {
    const char *name;
    int line;    /* from 1                                                     */
    size_t cell; /* from 1                                                     */
    int stages;  /* largest id + 1                                             */
    int64_t microbatches;
    size_t actions;
    const pst_env *env;
    pst_csv_options options;
    int old_dialect;
    size_t fulls, inputs, weights; /* cells B, I and W                          */
    pst_schedule_builder *builder; /* NULL in the first pass                   */
} reading;

/* The beginning of `text`, fit to be printed. */
static const char *show(span text, char shown[SHOWN + 4])
{
    size_t length = text.length < SHOWN ? text.length : SHOWN;
    for (size_t i = 0; i < length; i++)
        shown[i] = text.at[i] >= ' ' && text.at[i] < 127 ? text.at[i] : '?';
    snprintf(shown + length, 4, "%s", text.length > SHOWN ? "..." : "");
    return shown;
}

static pst_status PST_PRINTF(4, 5)
    refuse(const reading *r, span cell, pst_error *err, const char *format, ...)
{
    char reason[512], shown[SHOWN + 4];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return pst_error_set_at(err, PST_EFORMAT, r->name, r->line, "cell %zu (\"%s\"): %s",
                            r->cell, show(cell, shown), reason);
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static span trim(span text)
{
    while (text.length > 0 && is_blank(text.at[0])) {
        text.at++;
        text.length--;
    }
    while (text.length > 0 && is_blank(text.at[text.length - 1]))
        text.length--;
    return text;
}

/* Digits at the front of *rest, taken off; -1: none, or more than an id can be. */
static int64_t take_number(span *rest)
{
    int64_t value = -1;
    while (rest->length > 0 && rest->at[0] >= '0' && rest->at[0] <= '9') {
        value = (value < 0 ? 0 : value) * 10 + (rest->at[0] - '0');
        if (value > INT32_MAX)
            value = INT32_MAX;
        rest->at++;
        rest->length--;
    }
    return value;
}

/* Capital letters and '_' at the front of *rest, taken off. */
static span take_word(span *rest)
{
    span word = {rest->at, 0};
    while (word.length < rest->length &&
           ((word.at[word.length] >= 'A' && word.at[word.length] <= 'Z') ||
            word.at[word.length] == '_'))
        word.length++;
    rest->at += word.length;
    rest->length -= word.length;
    return word;
}

static int is_word(span word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

static int find_op(span word)
{
    for (int op = 0; op < PST_OP_COUNT; op++)
        if (is_word(word, pst_op_describe(op)->csv))
            return op;
    return -1;
}

/* The order in which PyTorch's pattern tries its alternatives. */
static const pst_op loader_order[] = {
    PST_OP_FORWARD,         PST_OP_BACKWARD_INPUT,  PST_OP_BACKWARD,
    PST_OP_BACKWARD_WEIGHT, PST_OP_UNSHARD,         PST_OP_RESHARD,
    PST_OP_REDUCE_GRAD,     PST_OP_SEND_FORWARD,    PST_OP_RECEIVE_FORWARD,
    PST_OP_SEND_BACKWARD,   PST_OP_RECEIVE_BACKWARD};

/* As that loader: the first operation that the word begins with; *word is cut
 * to it and the rest goes back to *rest. */
static int find_op_leniently(span *word, span *rest)
{
    for (size_t i = 0; i < sizeof loader_order / sizeof *loader_order; i++) {
        const char *csv = pst_op_describe(loader_order[i])->csv;
        const size_t length = strlen(csv);
        if (word->length < length || memcmp(word->at, csv, length) != 0)
            continue;
        rest->length += word->length - length;
        rest->at -= word->length - length;
        word->length = length;
        return loader_order[i];
    }
    return -1;
}

/* What B and BW are in this file. */
static int in_dialect(reading *r, span word, int op)
{
    if (is_word(word, "BW")) {
        if (r->options.dialect == PST_CSV_AUTO)
            r->old_dialect = 1;
        return r->old_dialect ? PST_OP_BACKWARD : -1;
    }
    r->fulls += op == PST_OP_BACKWARD;
    r->inputs += op == PST_OP_BACKWARD_INPUT;
    r->weights += op == PST_OP_BACKWARD_WEIGHT;
    return r->old_dialect && op == PST_OP_BACKWARD ? PST_OP_BACKWARD_INPUT : op;
}

static void ignore(const reading *r, span what, const char *why)
{
    char shown[SHOWN + 4];
    pst_log(r->env, PST_LOG_WARNING, "%s:%d: cell %zu: '%s' is ignored, %s", r->name,
            r->line, r->cell, show(what, shown), why);
}

static const char grammar[] = "expected STAGE OP MICROBATCH such as 2F5, with "
                              "OP one of F, B, I, W, SEND_F, RECV_F, "
                              "SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD";

static pst_status note_ids(reading *r, span cell, int64_t stage, int64_t microbatch,
                           pst_error *err)
{
    if (stage >= MOST_IDS)
        return refuse(r, cell, err, "stage %" PRId64 "; ids go up to %d", stage,
                      MOST_IDS - 1);
    if (stage >= r->stages)
        r->stages = (int)stage + 1;
    if (microbatch >= r->microbatches)
        r->microbatches = microbatch + 1;
    return PST_OK;
}

/* One action from `text`, a part of `cell` or all of it. */
static pst_status parse_action(reading *r, span cell, span text, int paired,
                               pst_error *err)
{
    char shown[SHOWN + 4];
    span rest = trim(text);
    int64_t stage = take_number(&rest);
    span word = take_word(&rest);
    int op = find_op(word);
    if (op < 0 && r->options.lenient && !is_word(word, "BW"))
        op = find_op_leniently(&word, &rest);
    op = in_dialect(r, word, op);
    if (op < 0 && is_word(word, "BW"))
        return refuse(
            r, cell, err,
            "BW belongs to the dialect from before November 2024, where B was "
            "the input part; write I for that B, and B for this BW");
    if (op >= 0 && !r->options.extended && !pst_op_describe(op)->in_pytorch)
        return refuse(
            r, cell, err,
            "%s is not of PyTorch's grammar; the extended one, which is to be "
            "asked for, has it",
            pst_op_describe(op)->csv);
    if (is_word(word, "OVERLAP_F_B"))
        return refuse(
            r, cell, err,
            "OVERLAP_F_B stands behind a pair only, as in (5F3;2B1)OVERLAP_F_B");
    if (stage < 0 || op < 0)
        return refuse(r, cell, err, "%s", grammar);
    int64_t microbatch = take_number(&rest);
    int wanted = pst_op_describe(op)->has_microbatch;
    if (rest.length > 0 && !r->options.lenient)
        return refuse(r, cell, err, "'%s' after the action; nothing may follow it",
                      show(rest, shown));
    if (rest.length > 0 && r->builder != NULL)
        ignore(r, rest, "as PyTorch's loader does");
    if (wanted && microbatch < 0)
        return refuse(r, cell, err, "no microbatch after %s; %s",
                      pst_op_describe(op)->csv, grammar);
    if (!wanted && microbatch >= 0)
        return refuse(r, cell, err, "%s takes no microbatch", pst_op_describe(op)->csv);
    if (paired && !pst_op_describe(op)->makes_output &&
        !pst_op_describe(op)->makes_input_grad)
        return refuse(r, cell, err, "a pair is made of F, B and I, not of %s",
                      pst_op_describe(op)->csv);
    r->actions++;
    pst_status status = note_ids(r, cell, stage, microbatch, err);
    if (status != PST_OK || r->builder == NULL)
        return status;
    pst_action action = {.microbatch =
                             wanted ? (uint32_t)microbatch : PST_NO_MICROBATCH,
                         .stage = (uint16_t)stage,
                         .op = (uint8_t)op,
                         .paired = (uint8_t)(paired == 1)};
    return pst_schedule_builder_append(r->builder, r->line - 1, action, err);
}

/* (ACTION;ACTION)OVERLAP_F_B */
static pst_status parse_pair(reading *r, span cell, pst_error *err)
{
    char shown[SHOWN + 4];
    const char *close = memchr(cell.at, ')', cell.length);
    const char *comma = memchr(cell.at, ';', cell.length);
    if (close == NULL || comma == NULL || comma > close)
        return refuse(r, cell, err, "expected a pair such as (5F3;2B1)OVERLAP_F_B");
    span first = {cell.at + 1, (size_t)(comma - cell.at) - 1};
    span second = {comma + 1, (size_t)(close - comma) - 1};
    span word = trim((span){close + 1, cell.length - (size_t)(close - cell.at) - 1});
    if (!is_word(word, "OVERLAP_F_B"))
        return refuse(r, cell, err, "'%s' behind the pair; expected OVERLAP_F_B",
                      show(word, shown));
    if (memchr(second.at, ';', second.length) != NULL)
        return refuse(r, cell, err, "a pair has two actions");
    pst_status status = parse_action(r, cell, first, 1, err);
    return status != PST_OK ? status : parse_action(r, cell, second, 2, err);
}

static pst_status parse_cell(reading *r, span text, pst_error *err)
{
    span cell = trim(text);
    if (cell.length == 0)
        return r->builder != NULL
                   ? pst_schedule_builder_idle(r->builder, r->line - 1, err)
                   : PST_OK;
    if (r->options.lenient && cell.length > 1 && cell.at[0] == '"' &&
        cell.at[cell.length - 1] == '"')
        return parse_cell(r, (span){cell.at + 1, cell.length - 2}, err);
    if (cell.at[0] == '"')
        return refuse(r, cell, err, "quoted; cells are written without quotes");
    if (cell.at[0] == '(')
        return parse_pair(r, cell, err);
    return parse_action(r, cell, cell, 0, err);
}

static pst_status parse_line(reading *r, span line, pst_error *err)
{
    if (line.length > 0 && line.at[line.length - 1] == '\r')
        line.length--;
    r->cell = 0;
    if (line.length == 0)
        return PST_OK; /* a rank with nothing to do */
    for (;;) {
        const char *comma = memchr(line.at, ',', line.length);
        size_t length = comma != NULL ? (size_t)(comma - line.at) : line.length;
        r->cell++;
        pst_status status = parse_cell(r, (span){line.at, length}, err);
        if (status != PST_OK || comma == NULL)
            return status;
        line.at += length + 1;
        line.length -= length + 1;
    }
}

static pst_status parse_all(reading *r, span text, pst_error *err)
{
    r->line = 0;
    r->actions = 0;
    while (text.length > 0) {
        const char *end = memchr(text.at, '\n', text.length);
        size_t length = end != NULL ? (size_t)(end - text.at) : text.length;
        if (++r->line > MOST_IDS)
            return pst_error_set_at(err, PST_EFORMAT, r->name, r->line,
                                    "more than %d lines; each line is a rank",
                                    MOST_IDS);
        pst_status status = parse_line(r, (span){text.at, length}, err);
        if (status != PST_OK)
            return status;
        length += end != NULL;
        text.at += length;
        text.length -= length;
    }
    return PST_OK;
}

static pst_status check_shape(const reading *r, pst_error *err)
{
    if (r->actions == 0)
        return pst_error_set_at(err, PST_EFORMAT, r->name, 1,
                                "no action in it; expected one line a rank, such as "
                                "0F0,0B0");
    if (r->microbatches == 0)
        return pst_error_set_at(err, PST_EFORMAT, r->name, 1,
                                "no cell with a microbatch in it; expected one line a "
                                "rank, such as 0F0,0B0");
    /* Some slack, so that a list that lacks a few is told which ones (check.c). */
    size_t most = 4 * r->actions + 64;
    if ((size_t)r->microbatches > most ||
        (size_t)r->stages * (size_t)r->microbatches > most)
        return pst_error_set_at(err, PST_EFORMAT, r->name, 1,
                                "ids up to stage %d and microbatch %" PRId64
                                " in only %zu actions; some are missing",
                                r->stages - 1, r->microbatches - 1, r->actions);
    const int64_t total = r->microbatches / r->options.slices * r->options.replicas /
                          r->options.data_parallel;
    if (r->options.microbatches > 0 && total != r->options.microbatches)
        return pst_error_set_at(err, PST_EFORMAT, r->name, 0,
                                "has %" PRId64 " microbatches; %d were asked for",
                                total, r->options.microbatches);
    return PST_OK;
}

static reading begin_reading(const pst_env *env, const char *name,
                             const pst_csv_options *options)
{
    reading r = {.name = name, .env = env};
    if (options != NULL)
        r.options = *options;
    if (r.options.replicas == 0)
        r.options.replicas = 1;
    if (r.options.slices == 0)
        r.options.slices = 1;
    if (r.options.data_parallel == 0)
        r.options.data_parallel = 1;
    r.old_dialect = r.options.dialect == PST_CSV_OLD;
    return r;
}

/* The first pass: shape and dialect. */
static pst_status survey(reading *r, span all, pst_error *err)
{
    pst_status status = parse_all(r, all, err);
    if (status != PST_OK)
        return status;
    if (r->options.dialect == PST_CSV_AUTO && r->weights > 0 && r->inputs == 0 &&
        r->fulls == r->weights)
        r->old_dialect = 1;
    if (r->options.dialect == PST_CSV_OLD && r->inputs > 0)
        return pst_error_set_at(err, PST_EFORMAT, r->name, 0,
                                "has I, which the dialect from before November 2024 "
                                "does not have");
    if (r->old_dialect && r->inputs > 0)
        return pst_error_set_at(
            err, PST_EFORMAT, r->name, 0,
            "has both I, of the present dialect, and BW, of the one "
            "from before November 2024");
    if (r->old_dialect && r->options.dialect == PST_CSV_AUTO)
        pst_log(r->env, PST_LOG_WARNING,
                "%s: read in the dialect from before November 2024, where B is the "
                "input "
                "part and BW the full backward",
                r->name);
    return check_shape(r, err);
}

static pst_status create_builder(reading *r, pst_error *err)
{
    pst_status status = pst_schedule_builder_create(
        r->env, r->line, r->stages, (int)r->microbatches, &r->builder, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_builder_set_replicas(r->builder, r->options.replicas, err);
    if (status == PST_OK)
        status = pst_schedule_builder_set_slices(r->builder, r->options.slices, err);
    if (status == PST_OK)
        status = pst_schedule_builder_set_data_parallel(r->builder,
                                                        r->options.data_parallel, err);
    pst_schedule_builder_set_weight_policy(r->builder, r->options.weight_policy);
    if (status != PST_OK)
        pst_schedule_builder_destroy(r->builder);
    return status;
}

pst_status pst_schedule_parse_csv(const pst_env *env, const char *name,
                                  const char *text, size_t bytes,
                                  const pst_csv_options *options, pst_schedule **out,
                                  pst_error *err)
{
    reading r = begin_reading(env, name, options);
    const span all = {text, bytes};
    pst_status status;
    if ((status = survey(&r, all, err)) || (status = create_builder(&r, err)))
        return status;
    if ((status = parse_all(&r, all, err))) {
        pst_schedule_builder_destroy(r.builder);
        return status;
    }
    return pst_schedule_builder_finish(r.builder, name, name, out, err);
}

pst_status pst_schedule_read_csv(const pst_env *env, const char *path,
                                 const pst_csv_options *options, pst_schedule **out,
                                 pst_error *err)
{
    char *text;
    size_t bytes;
    pst_csv_options own = {0};
    if (options != NULL)
        own = *options;
    pst_status status = pst__csv_meta_read(env, path, &own, err);
    if (status != PST_OK)
        return status;
    status = pst_file_read(env, path, FILE_LIMIT, &text, &bytes, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_parse_csv(env, path, text, bytes, &own, out, err);
    pst_release(env, text);
    return status;
}

int pst_schedule_is_extended(const pst_schedule *schedule)
{
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++)
            if (!pst_op_describe(row[i].op)->in_pytorch)
                return 1;
    }
    return 0;
}

static pst_status write_row(pst_file_writer *writer, const pst_schedule *schedule,
                            int rank, pst_error *err)
{
    size_t count;
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    pst_status status = PST_OK;
    for (size_t i = 0; i < count && status == PST_OK; i++) {
        char text[32];
        int first = row[i].paired && i + 1 < count;
        int second = i > 0 && row[i - 1].paired;
        pst_action_text(row[i], text, sizeof text);
        status = pst_file_printf(writer, err, "%s%s%s%s",
                                 i == 0   ? ""
                                 : second ? ";"
                                          : ",",
                                 first ? "(" : "", text, second ? ")OVERLAP_F_B" : "");
    }
    return status == PST_OK ? pst_file_write(writer, "\n", 1, err) : status;
}

pst_status pst_schedule_write_csv(const pst_env *env, const pst_schedule *schedule,
                                  const char *path, pst_error *err)
{
    pst_file_writer *writer;
    pst__csv_meta meta;
    pst_status status = pst_file_create(env, path, &writer, err);
    if (status != PST_OK)
        return status;
    for (int rank = 0; rank < pst_schedule_ranks(schedule) && status == PST_OK; rank++)
        status = write_row(writer, schedule, rank, err);
    if (status == PST_OK)
        status = pst__csv_meta_begin(env, schedule, path, &meta, err);
    if (status != PST_OK) {
        pst_file_discard(writer);
        return status;
    }
    status = pst_file_commit(writer, err);
    if (status == PST_OK)
        return pst__csv_meta_commit(&meta, err);
    pst__csv_meta_discard(&meta);
    return status;
}
