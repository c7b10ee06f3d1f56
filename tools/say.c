/* SPDX-License-Identifier: BSD-3-Clause */
/* say.c - messages on standard error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/say.h"

static const char *program = "penstock";

void say_program(const char *name)
{
    program = name;
}

const char *say_program_name(void)
{
    return program;
}

void say_error(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s: ", program);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void say_warning(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s: warning: ", program);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void say_log(void *user, pst_log_level level, const char *text)
{
    (void)user;
    if (level == PST_LOG_ERROR)
        say_error("%s", text);
    else if (level <= PST_LOG_WARNING)
        say_warning("%s", text);
}

int say_failure(const pst_error *err)
{
    if (err->file[0] != 0 && err->line > 0)
        say_error("%s:%d: %s", err->file, err->line, err->text);
    else if (err->file[0] != 0)
        say_error("%s: %s", err->file, err->text);
    else
        say_error("%s", err->text);
    return 1;
}

int say_finish(int status)
{
    /* A write that failed before has left its mark, but not its reason. */
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    say_error("standard output: %s",
              errno != 0 ? strerror(errno) : "cannot be written");
    return 1;
}
