/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c - parses and explains a command's options. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"
#include "tools/say.h"

enum { HELP_COLUMN = 30, LONGEST_WORD = 40 };

int options_refuse(const command *command, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say_error("%s; see '%s --help'", text, command->name);
    return 2;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's distance; long words are far from everything. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[LONGEST_WORD + 1];
    if (n > LONGEST_WORD || m > LONGEST_WORD)
        return LONGEST_WORD;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            row[j] =
                smallest(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[m];
}

const char *options_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t limit = strlen(word) / 3 + 1;
    for (; *names != NULL; names++) {
        size_t d = distance(word, *names);
        if (d <= limit) {
            best = *names;
            limit = d == 0 ? 0 : d - 1;
        }
    }
    return best;
}

static int unknown(const command *command, const char *word)
{
    const char *names[128];
    size_t count = 0;
    for (size_t i = 0; i < command->option_count && count < 125; i++)
        names[count++] = command->options[i].name;
    names[count++] = "help";
    names[count++] = "version";
    names[count] = NULL;
    char bare[LONGEST_WORD + 1];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word, "="), word);
    const char *nearest = options_nearest(bare, names);
    if (nearest != NULL)
        return options_refuse(command, "unknown option '--%s', perhaps '--%s' is meant",
                              bare, nearest);
    return options_refuse(command, "unknown option '--%s'", bare);
}

/* How the user wrote it, for messages. */
static const char *shown(const option *o, char *room, size_t size)
{
    snprintf(room, size, "--%s", o->name);
    return room;
}

static int out_of_range(const command *command, const option *o, const char *text)
{
    char room[64];
    shown(o, room, sizeof room);
    if (isinf(o->highest))
        return options_refuse(command, "%s %s: must be at least %.15g", room, text,
                              o->lowest);
    return options_refuse(command, "%s %s: must be from %.15g to %.15g", room, text,
                          o->lowest, o->highest);
}

static int in_range(const option *o, double value)
{
    return (o->lowest == 0 && o->highest == 0) ||
           (value >= o->lowest && value <= o->highest);
}

static int set_whole(const command *command, const option *o, const char *text)
{
    char *end, room[64];
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int too_big = errno == ERANGE ||
                  (o->kind == OPTION_INT && (value < INT32_MIN || value > INT32_MAX));
    if (end == text || *end != 0 || too_big)
        return options_refuse(command, "%s '%s': not a whole number%s",
                              shown(o, room, sizeof room), text,
                              too_big ? " that fits" : "");
    if (!in_range(o, (double)value))
        return out_of_range(command, o, text);
    if (o->kind == OPTION_INT)
        *(int *)o->value = (int)value;
    else
        *(int64_t *)o->value = value;
    return OPTIONS_GO_ON;
}

static int set_unsigned(const command *command, const option *o, const char *text)
{
    char *end, room[64];
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != 0 || errno == ERANGE || text[0] == '-')
        return options_refuse(command, "%s '%s': not a whole number from 0 to 2^64 - 1",
                              shown(o, room, sizeof room), text);
    *(uint64_t *)o->value = value;
    return OPTIONS_GO_ON;
}

static int set_real(const command *command, const option *o, const char *text)
{
    char *end, room[64];
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !isfinite(value))
        return options_refuse(command, "%s '%s': not a number",
                              shown(o, room, sizeof room), text);
    if (!in_range(o, value))
        return out_of_range(command, o, text);
    if (o->kind == OPTION_DOUBLE)
        *(double *)o->value = value;
    else
        *(float *)o->value = (float)value;
    return OPTIONS_GO_ON;
}

static int set_choice(const command *command, const option *o, const char *text)
{
    char known[256], room[64];
    size_t used = 0;
    for (int i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *(int *)o->value = i;
            return OPTIONS_GO_ON;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i > 0 ? ", " : "", o->choices[i]);
    }
    return options_refuse(command, "%s '%s': must be one of %s",
                          shown(o, room, sizeof room), text, known);
}

static int set_one_more(const command *command, const option *o, const char *text)
{
    option_strings *list = o->value;
    const int most = (int)(sizeof list->text / sizeof *list->text);
    if (list->count == most)
        return options_refuse(command, "--%s is given more than %d times", o->name,
                              most);
    list->text[list->count++] = text;
    return OPTIONS_GO_ON;
}

static int set(const command *command, const option *o, const char *text)
{
    switch (o->kind) {
    case OPTION_FLAG:
        *(int *)o->value = 1;
        return OPTIONS_GO_ON;
    case OPTION_INT:
    case OPTION_INT64:
        return set_whole(command, o, text);
    case OPTION_UINT64:
        return set_unsigned(command, o, text);
    case OPTION_DOUBLE:
    case OPTION_FLOAT:
        return set_real(command, o, text);
    case OPTION_STRING:
        *(const char **)o->value = text;
        return OPTIONS_GO_ON;
    case OPTION_STRINGS:
        return set_one_more(command, o, text);
    case OPTION_CHOICE:
        return set_choice(command, o, text);
    }
    return OPTIONS_GO_ON;
}

static void print_option(const option *o)
{
    char left[96];
    int letter = o->letter != 0;
    snprintf(left, sizeof left, "  %c%c%s--%s%s%s", letter ? '-' : ' ',
             letter ? o->letter : ' ', letter ? ", " : "  ", o->name,
             o->argument != NULL ? " " : "", o->argument != NULL ? o->argument : "");
    if (strlen(left) >= HELP_COLUMN)
        printf("%s\n%*s%s\n", left, HELP_COLUMN, "", o->help);
    else
        printf("%-*s%s\n", HELP_COLUMN, left, o->help);
}

static void print_help(const command *command)
{
    printf("Usage: %s%s%s%s\n\n%s\n\nOptions:\n", command->name,
           command->operands != NULL ? " " : "",
           command->operands != NULL ? command->operands : "", " [OPTION ...]",
           command->summary);
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i]);
    printf("%-*s%s\n%-*s%s\n", HELP_COLUMN, "      --help", "show this and end",
           HELP_COLUMN, "      --version", "show the version and end");
}

static const option *find_long(const command *command, const char *name, size_t length)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const option *o = &command->options[i];
        if (strncmp(o->name, name, length) == 0 && o->name[length] == 0)
            return o;
    }
    return NULL;
}

static const option *find_letter(const command *command, char letter)
{
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].letter == letter)
            return &command->options[i];
    return NULL;
}

static int mark_and_set(const command *command, const option *o, const char *text)
{
    if (o->given != NULL)
        *o->given = 1;
    return set(command, o, text);
}

/* argv[*at] is "--something"; *at moves past what belongs to it. */
static int parse_long(const command *command, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "=");
    const option *o = find_long(command, name, length);
    if (o == NULL)
        return unknown(command, name);
    const char *text = name[length] == '=' ? name + length + 1 : NULL;
    if (o->kind == OPTION_FLAG && text != NULL)
        return options_refuse(command, "--%s takes no value", o->name);
    if (o->kind != OPTION_FLAG && text == NULL) {
        if (*at + 1 >= argc)
            return options_refuse(command, "--%s needs a value (%s)", o->name,
                                  o->argument);
        text = argv[++*at];
    }
    return mark_and_set(command, o, text);
}

static int parse_letters(const command *command, int argc, char **argv, int *at)
{
    const char *word = argv[*at] + 1;
    for (; *word != 0; word++) {
        const option *o = find_letter(command, *word);
        if (o == NULL)
            return options_refuse(command, "unknown option '-%c'", *word);
        if (o->kind == OPTION_FLAG) {
            mark_and_set(command, o, NULL);
            continue;
        }
        if (word[1] != 0)
            return mark_and_set(command, o, word + 1);
        if (*at + 1 >= argc)
            return options_refuse(command, "-%c needs a value (%s)", *word,
                                  o->argument);
        return mark_and_set(command, o, argv[++*at]);
    }
    return OPTIONS_GO_ON;
}

static int apply_environment(const command *command)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const option *o = &command->options[i];
        const char *text = o->variable != NULL ? getenv(o->variable) : NULL;
        if (text == NULL || *text == 0)
            continue;
        int status = set(command, o, text);
        if (status != OPTIONS_GO_ON)
            return status;
    }
    return OPTIONS_GO_ON;
}

int options_parse(const command *command, int argc, char **argv, const char **operands,
                  int *count)
{
    int only_operands = 0, status = apply_environment(command);
    *count = 0;
    for (int at = 1; at < argc && status == OPTIONS_GO_ON; at++) {
        const char *word = argv[at];
        if (only_operands || word[0] != '-' || word[1] == 0) {
            if (*count == command->most_operands)
                return options_refuse(command, "'%s': one operand too many", word);
            operands[(*count)++] = word;
        } else if (strcmp(word, "--") == 0) {
            only_operands = 1;
        } else if (strcmp(word, "--help") == 0) {
            print_help(command);
            return 0;
        } else if (strcmp(word, "--version") == 0) {
            command->print_version();
            return 0;
        } else if (word[1] == '-') {
            status = parse_long(command, argc, argv, &at);
        } else {
            status = parse_letters(command, argc, argv, &at);
        }
    }
    if (status == OPTIONS_GO_ON && *count < command->fewest_operands)
        return options_refuse(command, "%s is missing", command->operands);
    return status;
}
