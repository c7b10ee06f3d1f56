/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.h - a command's options as one table, which parses, checks and explains them.
 *
 * Forms: --name VALUE, --name=VALUE, -x VALUE, -xVALUE. `--` ends options. --help and
 * --version are understood by every command. A variable of the environment
 * (PENSTOCK_...) may stand in for an option that is not given.
 */
#ifndef PST_TOOLS_OPTIONS_H
#define PST_TOOLS_OPTIONS_H

#include <stddef.h>

typedef enum option_kind {
    OPTION_FLAG,    /* value: int, set to 1                                     */
    OPTION_INT,     /* value: int                                               */
    OPTION_INT64,   /* value: int64_t                                           */
    OPTION_UINT64,  /* value: uint64_t; takes no range                          */
    OPTION_DOUBLE,  /* value: double, finite                                    */
    OPTION_FLOAT,   /* value: float, finite                                     */
    OPTION_STRING,  /* value: const char *, borrowed from argv                  */
    OPTION_STRINGS, /* value: option_strings, one more each time it is given    */
    OPTION_CHOICE   /* value: int, the index in `choices`                       */
} option_kind;

/* Zeroed: none. Borrowed from argv. */
typedef struct option_strings {
    const char *text[16];
    int count;
} option_strings;

/* What the processes of one run must have been told alike. */
typedef enum option_alike {
    OPTION_ALIKE,   /* the value                                               */
    OPTION_PRESENT, /* whether there is one                                    */
    OPTION_OWN      /* nothing                                                 */
} option_alike;

typedef struct option {
    const char *name;
    char letter; /* 0: none                                                    */
    option_kind kind;
    void *value;
    const char *argument; /* what stands for it in help: "N"; flags: NULL      */
    const char *help;
    double lowest; /* both 0: any                                              */
    double highest;
    const char *const *choices; /* ends in NULL                                */
    const char *variable;       /* of the environment, or NULL                 */
    int *given;                 /* set to 1 when the user gave it; may be NULL */
    option_alike alike;
} option;

typedef struct command {
    const char *name;     /* "pipesim draw"                                    */
    const char *operands; /* as in the usage line: "SCHEDULE"; NULL: none      */
    const char *summary;  /* a sentence                                        */
    int fewest_operands;
    int most_operands;
    const option *options;
    size_t option_count;
    void (*print_version)(void);
} command;

/* Go on; anything else is an exit status. */
#define OPTIONS_GO_ON (-1)

/*
 * Parse argv[1 ..]. Operands go to operands[0 .. *count - 1], which has room for
 * most_operands. Returns OPTIONS_GO_ON, 0 after --help and --version, or 2 after a
 * message about wrong usage.
 */
int options_parse(const command *command, int argc, char **argv, const char **operands,
                  int *count);

/* After parsing: a line of text for each option that is not OPTION_OWN, in the order of
 * the table, "--steps 3", "no --resume". Long values are cut, and marked by a hash. */
enum { OPTIONS_TOLD = 8192 };
void options_tell(const command *command, char text[OPTIONS_TOLD]);

/* "program: message" and a hint at --help; returns 2. */
int options_refuse(const command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The one of `names` (ends in NULL) that `word` was perhaps meant to be, or NULL. */
const char *options_nearest(const char *word, const char *const *names);

#endif
