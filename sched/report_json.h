/* SPDX-License-Identifier: BSD-3-Clause */
/* report_json.h - what the simulator and the checker found, as JSON for scripts. */
#ifndef PENSTOCK_REPORT_JSON_H
#define PENSTOCK_REPORT_JSON_H

#include <penstock/registry.h>
#include <penstock/simulate.h>

PST_BEGIN_DECLS

/*
 * One object: schedule, ranks, stages, microbatches, makespan, longest_rank, ideal,
 * bubble {of_makespan, of_ideal, longest_rank}, busy [], peak_activations [],
 * max_queue_depth; updates and weight_versions [] of a list with STEP; hosts and links
 * [{from, to, busy, longest_wait}], those that carried anything, with a network; and
 * closed_form {makespan, peak_first_rank, peak_last_rank, formula} where `form` is not
 * NULL.
 * Owns: *text is the caller's (pst_release). Errors: PST_ENOMEM.
 */
PST_API pst_status pst_report_simulation(const pst_env *env, const char *schedule,
                                         const pst_simulation *simulation,
                                         const pst_closed_form *form, char **text,
                                         pst_error *err);

/*
 * One object: valid, and where it is false status, file, line, message; where it is
 * true ranks, stages, microbatches, actions, rendezvous (null, or the deadlock that
 * sends which wait would run into) and least_capacity. `found` is the checker's
 * verdict.
 */
PST_API pst_status pst_report_check(const pst_env *env, const pst_schedule *schedule,
                                    const pst_error *found, const pst_error *rendezvous,
                                    int least_capacity, char **text, pst_error *err);

PST_END_DECLS

#endif
