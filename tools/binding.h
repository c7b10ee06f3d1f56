/* SPDX-License-Identifier: BSD-3-Clause */
/* binding.h - telling where workers are to be, and saying where they are. */
#ifndef PST_TOOLS_BINDING_H
#define PST_TOOLS_BINDING_H

#include <penstock/pipeline.h>

#include "tools/options.h"

/* What --bind says (NULL: nothing) into *options, which borrows a list of CPUs. Returns
 * OPTIONS_GO_ON, or an exit status after a message. */
int binding_parse(const command *command, const char *text,
                  pst_pipeline_options *options);

/* A line on the CPU budget and what it comes from. */
void binding_print_budget(void);

/* A line on one worker, or on the place that there is for it. */
void binding_print(int rank, const pst_worker_info *info);

#endif
