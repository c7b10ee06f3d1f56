/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_text.c - "stage=2,mb=5,op=F,kind=error". */
#include <penstock/fault.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct word {
    const char *name;
    int value;
} word;

static const word ops[] = {
    {"F", PST_FAULT_FORWARD},        {"B", PST_FAULT_BACKWARD_INPUT},
    {"I", PST_FAULT_BACKWARD_INPUT}, {"W", PST_FAULT_BACKWARD_WEIGHT},
    {"reduce", PST_FAULT_REDUCE},    {"step", PST_FAULT_STEP},
    {"data", PST_FAULT_DATA},        {NULL, 0},
};

static const word kinds[] = {
    {"error", PST_FAULT_ERROR},
    {"abort", PST_FAULT_ABORT},
    {"exit", PST_FAULT_EXIT},
    {"segv", PST_FAULT_SEGV},
    {"hang", PST_FAULT_HANG},
    {"nan", PST_FAULT_NAN},
    {"slow", PST_FAULT_SLOW},
    {"overflow", PST_FAULT_OVERFLOW},
    {NULL, 0},
};

enum part { STAGE, MB, OP, STEP, KIND, SECONDS, PARTS };
static const char *const parts[PARTS] = {"stage", "mb",   "op",
                                         "step",  "kind", "seconds"};

/* A fault that is being read. */
typedef struct draft {
    pst_fault fault;
    bool given[PARTS];
    const char *op; /* as it was written                                       */
} draft;

static pst_status set_word(const word *words, const char *part, const char *text,
                           int *value, const char **name, pst_error *err)
{
    char known[80] = "";
    for (; words->name; words++) {
        if (strcmp(words->name, text) == 0) {
            *value = words->value;
            *name = words->name;
            return PST_OK;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                 words->name);
    }
    return pst_error_set(err, PST_EINVAL, "%s '%s': must be one of %s", part, text,
                         known);
}

static pst_status set_whole(const char *part, const char *text, long long lowest,
                            long long highest, long long *value, pst_error *err)
{
    char *end;
    const long long number = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || number < lowest || number > highest)
        return pst_error_set(err, PST_EINVAL,
                             "%s '%s': must be a whole number from %lld to %lld", part,
                             text, lowest, highest);
    *value = number;
    return PST_OK;
}

static pst_status set_seconds(const char *text, double *value, pst_error *err)
{
    char *end;
    const double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= 1e9))
        return pst_error_set(err, PST_EINVAL,
                             "seconds '%s': must be a number from 0 to 1e9", text);
    *value = seconds;
    return PST_OK;
}

static pst_status set_part(draft *d, enum part part, const char *text, pst_error *err)
{
    pst_fault *f = &d->fault;
    pst_status status = PST_OK;
    long long number = 0;
    int value = 0;
    const char *name;
    switch (part) {
    case STAGE:
        status = set_whole("stage", text, 0, 65534, &number, err);
        f->stage = (int)number;
        break;
    case MB:
        status = set_whole("mb", text, 0, INT_MAX - 1, &number, err);
        f->microbatch = (int)number;
        break;
    case STEP:
        status = set_whole("step", text, 1, 1000000000000000, &number, err);
        f->step = number;
        break;
    case OP:
        status = set_word(ops, "op", text, &value, &d->op, err);
        f->op = (pst_fault_op)value;
        break;
    case KIND:
        status = set_word(kinds, "kind", text, &value, &name, err);
        f->kind = (pst_fault_kind)value;
        break;
    default:
        status = set_seconds(text, &f->seconds, err);
    }
    return status;
}

/* `text`, one part of the whole: "stage=2". */
static pst_status read_part(draft *d, const char *text, pst_error *err)
{
    const size_t length = strcspn(text, "=");
    int part = 0;
    while (part < PARTS &&
           (strncmp(parts[part], text, length) != 0 || parts[part][length] != '\0'))
        part++;
    if (part == PARTS || text[length] == '\0')
        return pst_error_set(err, PST_EINVAL,
                             "'%s': a fault is made of stage=, mb=, op=, step=, kind= "
                             "and seconds=, with commas between",
                             text);
    if (d->given[part])
        return pst_error_set(err, PST_EINVAL, "%s stands there twice", parts[part]);
    d->given[part] = true;
    return set_part(d, (enum part)part, text + length + 1, err);
}

/* `needed` and not there, or there and not needed. */
static pst_status check_part(const draft *d, enum part part, bool needed,
                             pst_error *err)
{
    if (d->given[part] == needed)
        return PST_OK;
    return pst_error_set(err, PST_EINVAL,
                         needed ? "%s= is missing; op=%s has one"
                                : "%s= is one too many; op=%s has none",
                         parts[part], d->op);
}

static pst_status check_whole(const draft *d, pst_error *err)
{
    const pst_fault *f = &d->fault;
    pst_status status;
    for (enum part part = OP; part <= KIND; part += KIND - OP)
        if (!d->given[part])
            return pst_error_set(err, PST_EINVAL, "%s= is missing", parts[part]);
    const bool in_action = f->op <= PST_FAULT_BACKWARD_WEIGHT;
    if ((status = check_part(d, STAGE, f->op != PST_FAULT_DATA, err)) != PST_OK ||
        (status = check_part(d, MB, in_action, err)) != PST_OK)
        return status;
    if (d->given[SECONDS] && f->kind != PST_FAULT_SLOW)
        return pst_error_set(err, PST_EINVAL,
                             "seconds= is one too many; only kind=slow has them");
    if (f->kind == PST_FAULT_NAN && f->op == PST_FAULT_DATA)
        return pst_error_set(err, PST_EINVAL,
                             "kind=nan: op=data reads whole numbers, which cannot be "
                             "NaN");
    return PST_OK;
}

pst_status pst_fault_parse(const char *text, pst_fault *out, pst_error *err)
{
    draft d = {.fault = {.stage = -1, .microbatch = -1, .seconds = 0.5}};
    pst_status status = PST_OK;
    char part[64];
    for (const char *next = text; next && status == PST_OK;) {
        const size_t length = strcspn(next, ",");
        snprintf(part, sizeof part, "%.*s", (int)(length < 63 ? length : 63), next);
        status = read_part(&d, part, err);
        next = next[length] == ',' ? next + length + 1 : NULL;
    }
    if (status == PST_OK)
        status = check_whole(&d, err);
    if (status == PST_OK)
        *out = d.fault;
    return status;
}
