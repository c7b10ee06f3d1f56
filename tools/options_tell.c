/* SPDX-License-Identifier: BSD-3-Clause */
/* options_tell.c - what a command was told, as text that processes can compare. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/hash.h"
#include "tools/options.h"

enum { LONGEST_VALUE = 64, LONGEST_LINE = 160 };

/* Printable, and of limited length; the hash tells what was left out. */
static void tell_string(const char *value, char *text, size_t size)
{
    size_t length = 0;
    const char *at = value;
    for (; *at != 0 && length < LONGEST_VALUE; at++)
        length += (size_t)snprintf(text + length, size - length,
                                   (unsigned char)*at < ' ' ? "\\%03o" : "%c",
                                   (unsigned char)*at);
    if (*at != 0)
        snprintf(text + length, size - length, "... (hash %016" PRIx64 ")",
                 hash_bytes(HASH_START, value, strlen(value)));
}

/* As short as it can be and still be this number. */
static void tell_number(double value, char *text, size_t size)
{
    double back;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (sscanf(text, "%lf", &back) == 1 && back == value)
            return;
    }
}

static void tell_value(const option *o, char *text, size_t size)
{
    *text = 0;
    switch (o->kind) {
    case OPTION_INT:
        snprintf(text, size, "%d", *(const int *)o->value);
        break;
    case OPTION_INT64:
        snprintf(text, size, "%" PRId64, *(const int64_t *)o->value);
        break;
    case OPTION_UINT64:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)o->value);
        break;
    case OPTION_DOUBLE:
        tell_number(*(const double *)o->value, text, size);
        break;
    case OPTION_FLOAT:
        snprintf(text, size, "%.9g", *(const float *)o->value);
        break;
    case OPTION_STRING:
        tell_string(*(const char *const *)o->value, text, size);
        break;
    case OPTION_CHOICE:
        snprintf(text, size, "%s", o->choices[*(const int *)o->value]);
        break;
    case OPTION_FLAG:
    case OPTION_STRINGS:
        break;
    }
}

static int is_there(const option *o)
{
    if (o->given != NULL)
        return *o->given;
    if (o->kind == OPTION_FLAG)
        return *(const int *)o->value;
    if (o->kind == OPTION_STRINGS)
        return ((const option_strings *)o->value)->count > 0;
    return o->kind != OPTION_STRING || *(const char *const *)o->value != NULL;
}

void options_tell(const command *command, char text[OPTIONS_TOLD])
{
    size_t length = 0;
    memset(text, 0, OPTIONS_TOLD);
    for (size_t i = 0; i < command->option_count; i++) {
        const option *o = &command->options[i];
        char value[LONGEST_LINE] = "";
        if (o->alike == OPTION_OWN || length + LONGEST_LINE >= OPTIONS_TOLD)
            continue;
        const int there = is_there(o);
        if (there && o->alike == OPTION_PRESENT)
            snprintf(value, sizeof value, "%s", o->argument);
        else if (there)
            tell_value(o, value, sizeof value);
        length +=
            (size_t)snprintf(text + length, OPTIONS_TOLD - length, "%s--%s%s%s\n",
                             there ? "" : "no ", o->name, *value ? " " : "", value);
    }
}
