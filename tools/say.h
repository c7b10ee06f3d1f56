/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h - what a tool tells its user on standard error: "program: file:line: message".
 */
#ifndef PST_TOOLS_SAY_H
#define PST_TOOLS_SAY_H

#include <penstock/env.h>
#include <penstock/error.h>

/* How messages begin; borrowed. To be called first in main. */
void say_program(const char *name);
const char *say_program_name(void);

void say_error(const char *format, ...) PST_PRINTF(1, 2);
void say_warning(const char *format, ...) PST_PRINTF(1, 2);

/* For a pst_env: warnings and errors are said, the rest is not. */
void say_log(void *user, pst_log_level level, const char *text);

/* A library's error, with its place. Returns 1, the exit status. */
int say_failure(const pst_error *err);

/* Flush standard output; a failure is said. Returns `status`, or 1 where it failed. */
int say_finish(int status);

#endif
