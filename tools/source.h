/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - SCHEDULE on a command line: a name, or a CSV file. */
#ifndef PST_TOOLS_SOURCE_H
#define PST_TOOLS_SOURCE_H

#include <penstock/registry.h>

/*
 * Make or read what `text` means. A file brings its own ranks and microbatches; those
 * in `shape` that are not 0 must agree with it. "-" is standard input. A file's list is
 * checked (check.h).
 */
pst_status source_schedule(const char *text, const pst_shape *shape, pst_schedule **out,
                           pst_error *err);

/* The whole of standard input or a file into a list that is not checked yet. */
pst_status source_file(const char *path, int microbatches, pst_schedule **out,
                       pst_error *err);

#endif
