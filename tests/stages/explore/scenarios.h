/* SPDX-License-Identifier: BSD-3-Clause */
/* scenarios.h - the programs that are explored. */
#ifndef PST_TESTS_STAGES_EXPLORE_SCENARIOS_H
#define PST_TESTS_STAGES_EXPLORE_SCENARIOS_H

#include "tests/stages/explore/explore.h"

typedef struct explore_scenarios {
    const explore_scenario *first;
    size_t count;
} explore_scenarios;

explore_scenarios explore_ring_scenarios(void);
explore_scenarios explore_pipeline_scenarios(void);
explore_scenarios explore_stream_scenarios(void);
explore_scenarios explore_team_scenarios(void);

/* Plain accesses are seen. */
extern const bool explore_sees_plain_accesses;

#endif
