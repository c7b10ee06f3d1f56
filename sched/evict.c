/* SPDX-License-Identifier: BSD-3-Clause */
/* evict.c - where EVICT goes, and how much it takes there. */
#include <penstock/schedule.h>

int pst_schedule_partner(const pst_schedule *schedule, int rank)
{
    const int copies = pst_schedule_data_parallel(schedule);
    const int ranks = pst_schedule_ranks(schedule) / copies;
    const int partner = rank % copies + copies * (ranks - 1 - rank / copies);
    return partner != rank ? partner : -1;
}

int pst_schedule_most_evicted(const pst_schedule *schedule, int rank)
{
    size_t count;
    int away = 0, most = 0;
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    for (size_t i = 0; i < count; i++) {
        away += (row[i].op == PST_OP_EVICT) - (row[i].op == PST_OP_LOAD);
        most = away > most ? away : most;
    }
    return most;
}
