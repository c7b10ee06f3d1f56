/* SPDX-License-Identifier: BSD-3-Clause */
/* tags.c - one number for each message; see lower.h. */
#include <inttypes.h>

#include <penstock/lower.h>

int64_t pst_schedule_tag(const pst_schedule *schedule, pst_action action)
{
    int user = action.stage, backward = 0;
    switch (action.op) {
    case PST_OP_SEND_FORWARD:
        user = pst_schedule_next_stage(schedule, action.stage);
        break;
    case PST_OP_RECEIVE_FORWARD:
        break;
    case PST_OP_SEND_BACKWARD:
        user = pst_schedule_previous_stage(schedule, action.stage);
        backward = 1;
        break;
    case PST_OP_RECEIVE_BACKWARD:
        backward = 1;
        break;
    default:
        return -1;
    }
    if (user < 0)
        return -1;
    const int64_t stream = (int64_t)backward * pst_schedule_stages(schedule) + user;
    return stream * pst_schedule_microbatches(schedule) + action.microbatch;
}

pst_status pst_schedule_check_tags(const pst_schedule *schedule, int64_t bound,
                                   pst_error *err)
{
    const int64_t streams = 2 * (int64_t)pst_schedule_stages(schedule);
    const int64_t last = streams * pst_schedule_microbatches(schedule) - 1;
    if (last <= bound || pst_schedule_ranks(schedule) == 1)
        return PST_OK;
    const int64_t most = bound < 0 ? 0 : (bound + 1) / streams;
    const char *name = pst_schedule_name(schedule);
    if (most == 0)
        return pst_error_set(
            err, PST_ESCHEDULE,
            "%s: the tags of its messages go up to %" PRId64
            ", and its %d stages need at least %" PRId64 "; the bound is %" PRId64,
            name, last, pst_schedule_stages(schedule), streams - 1, bound);
    return pst_error_set(err, PST_ESCHEDULE,
                         "%s: the tags of its messages go up to %" PRId64
                         "; the bound is %" PRId64 ", which is enough for m = %" PRId64,
                         name, last, bound, most);
}
