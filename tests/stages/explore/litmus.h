/* SPDX-License-Identifier: BSD-3-Clause */
/* litmus.h - small programs with known answers, to test the explorer itself. */
#ifndef PST_TESTS_STAGES_EXPLORE_LITMUS_H
#define PST_TESTS_STAGES_EXPLORE_LITMUS_H

#include "tests/stages/explore/explore.h"

typedef struct explore_litmus {
    explore_scenario scenario;
    bool is_allowed; /* its outcome is found                                     */
} explore_litmus;

extern const explore_litmus explore_litmuses[];
extern const size_t explore_litmus_count;

#endif
