/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crew.h - threads that start together, are watched, and come back together.
 *
 * Each member stands at the place of its number in the topology. One thread, the
 * caller, begins a job; every member runs `work` once for it and is then idle again:
 *
 *     caller                              member i
 *     start += 1, wake all    ------->    work(user, i)
 *     wait until finished == size  <---   finished += 1; the last one wakes
 *
 * What the caller wrote before it began is seen by the members, and what they wrote is
 * seen when it has waited for them.
 */
#ifndef PENSTOCK_STAGES_CREW_H
#define PENSTOCK_STAGES_CREW_H

#include <stdbool.h>

#include <penstock/pipeline.h>

#include "stages/atomic.h"
#include "stages/thread.h"
#include "stages/topology.h"

typedef struct pst_crew pst_crew;

typedef struct pst_crew_member {
    pst_crew *crew;
    int number;
    bool started;
    pst_thread thread;
    pst_worker_info info;
    int bind_error; /* errno of a refused binding, or 0                        */
} pst_crew_member;

struct pst_crew {
    const pst_env *env;
    const pst_topology *topology; /* NULL: members are not bound               */
    const char *name;             /* of the threads, before their number       */
    void (*work)(void *user, int member);
    void *user;
    int size;
    uint64_t spin_ns; /* how long an idle member looks before it sleeps        */
    pst_crew_member *members;
    bool broken; /* a member has not come back from its work                   */
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 start;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 finished;
    pst_atomic_u32 quit;
};

/* Start the members; all fields above `members` are set and stay valid until
 * pst__crew_stop(), which is due after an error too. Errors: PST_ENOMEM, PST_ESYSTEM.
 */
pst_status pst__crew_start(pst_crew *crew, pst_error *err);

void pst__crew_begin(pst_crew *crew);

/*
 * Wait until all members are idle. `movement` gives a number that changes whenever one
 * gets on. False: it did not change for limit_ns; 0 means no limit.
 */
bool pst__crew_wait(pst_crew *crew, uint64_t limit_ns,
                    uint64_t (*movement)(void *user));

/* As above, but for `grace_ns` at most; what does not come back makes it broken. */
bool pst__crew_gather(pst_crew *crew, uint64_t grace_ns);

/* End and join the members. False: it is broken, so one may still come back, and needs
 * its memory then. */
bool pst__crew_stop(pst_crew *crew);

#endif
