/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_mpi.c - the transport's table, its thread, its beginning and end. */
#include <string.h>

#include "stages/transport_mpi.h"

#define TEXT(x)  #x
#define VALUE(x) TEXT(x)
#if defined(OMPI_MAJOR_VERSION)
#define LIBRARY                                                                        \
    "Open MPI " VALUE(OMPI_MAJOR_VERSION) "." VALUE(OMPI_MINOR_VERSION) "." VALUE(     \
        OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define LIBRARY "MPICH " MPICH_VERSION
#else
#define LIBRARY "MPI " VALUE(MPI_VERSION) "." VALUE(MPI_SUBVERSION)
#endif

enum {
    /* The thread's pause after a look in which nothing moved: some yields, then sleep
     * that doubles; long ones where there is nothing to move. */
    YIELDS = 4,
    SHORTEST_NAP_NS = 20000,
    DOUBLINGS = 6, /* up to 1.28 ms: who waits looks more often than that           */
    FUNNELED_DOUBLINGS = 3, /* but here nobody else may                           */
    IDLE_NAP_NS = 5000000,
    /* A thread that waits looks at control messages so often. */
    CONTROL_NS = 1000000,
    /* How long abort lets the failure be told. */
    ABORT_NS = 1000000000
};

const char *pst_mpi_library(void)
{
    return LIBRARY;
}

/* ---- the table ---- */

static const char *where(void *self, int process)
{
    return ((pst_mpi *)self)->peers[process].where;
}

static void start(pst_mpi *mpi, pst_mpi_job job)
{
    job.transfer->failed = 0;
    pst__monitor_enter(&mpi->lock);
    pst__mpi_start(mpi, job);
    if (mpi->dozes)
        pst__monitor_wake(&mpi->lock);
    pst__monitor_leave(&mpi->lock);
}

static void send_to(void *self, int to, uint32_t tag, const void *data, size_t bytes,
                    size_t most, pst_transfer *transfer)
{
    start(self, (pst_mpi_job){.peer = to,
                              .tag = tag,
                              .data = (char *)(uintptr_t)data, /* only read */
                              .bytes = bytes,
                              .most = most,
                              .transfer = transfer});
}

static void receive_from(void *self, int from, uint32_t tag, void *data, size_t most,
                         pst_transfer *transfer)
{
    start(self, (pst_mpi_job){.receives = true,
                              .peer = from,
                              .tag = tag,
                              .data = data,
                              .most = most,
                              .transfer = transfer});
}

/* True: something moved. Inside the lock, by a thread that may call MPI. */
static bool look(pst_mpi *mpi, bool at_notes)
{
    if (mpi->silent)
        return false;
    pst__mpi_post(mpi);
    const bool moved = pst__mpi_test(mpi);
    /* By waiting threads too: one that looks all the time may keep the lock from the
     * transport's own thread for long. */
    const uint64_t now = pst__now_ns();
    if (at_notes || mpi->failed || now - mpi->control_ns > CONTROL_NS) {
        pst__mpi_read_notes(mpi, now);
        pst__mpi_tick(mpi, now);
    }
    return moved;
}

static void progress(void *self)
{
    pst_mpi *mpi = self;
    /* funneled never changes once open has returned */
    if (mpi->funneled || !pst__monitor_try(&mpi->lock))
        return;
    mpi->waiter_looked = true;
    look(mpi, false);
    pst__monitor_leave(&mpi->lock);
}

static void fail(void *self, const char *text)
{
    pst_mpi *mpi = self;
    pst__monitor_enter(&mpi->lock);
    pst__mpi_fail(mpi, "%s", text);
    if (!mpi->funneled && !mpi->silent)
        pst__mpi_tick(mpi, pst__now_ns());
    pst__monitor_wake(&mpi->lock);
    pst__monitor_leave(&mpi->lock);
}

static const char *failure(void *self)
{
    pst_mpi *mpi = self;
    pst__monitor_enter(&mpi->lock);
    const char *text = mpi->failed ? mpi->failure : NULL;
    pst__monitor_leave(&mpi->lock);
    return text;
}

/* ---- the thread ---- */

/* After a look that moved nothing, the n-th in a row. */
static void pause_thread(pst_mpi *mpi, unsigned n)
{
    const bool busy = pst__mpi_has_jobs(mpi) || mpi->failed;
    const bool alone = !mpi->waiter_looked;
    mpi->waiter_looked = false;
    if (mpi->silent || !busy) {
        mpi->dozes = true;
        pst__monitor_sleep(&mpi->lock, IDLE_NAP_NS);
        mpi->dozes = false;
    } else if (n < YIELDS && alone) {
        pst__monitor_leave(&mpi->lock);
        pst__thread_yield();
        pst__monitor_enter(&mpi->lock);
    } else {
        const unsigned most = mpi->funneled ? FUNNELED_DOUBLINGS : DOUBLINGS;
        const unsigned doubled = n < YIELDS ? 0 : n - YIELDS;
        const uint64_t nap = (uint64_t)SHORTEST_NAP_NS
                             << (doubled < most ? doubled : most);
        mpi->dozes = mpi->funneled;
        pst__monitor_sleep(&mpi->lock, nap);
        mpi->dozes = false;
    }
}

static void abort_now(pst_mpi *mpi)
{
    const uint64_t waited = mpi->failed ? pst__now_ns() - mpi->failed_ns : 0;
    if (!mpi->failed || mpi->silent || waited > ABORT_NS)
        MPI_Abort(MPI_COMM_WORLD, mpi->abort_status);
}

/* True: nothing is left to do. */
static bool may_end(pst_mpi *mpi)
{
    if (mpi->state != PST__MPI_CLOSING)
        return false;
    if (mpi->failed)
        return mpi->silent;
    if (pst__mpi_has_jobs(mpi)) {
        pst__mpi_fail(mpi, "%s was closed while messages were on their way",
                      mpi->peers[mpi->transport.process].where);
        return false;
    }
    if (!mpi->said_goodbye)
        pst__mpi_say_goodbye(mpi);
    return pst__mpi_may_part(mpi);
}

static void move_transfers(pst_mpi *mpi)
{
    unsigned fruitless = 0;
    while (!may_end(mpi)) {
        if (look(mpi, true)) {
            fruitless = 0;
            pst__monitor_leave(&mpi->lock);
            pst__monitor_enter(&mpi->lock);
        } else {
            pause_thread(mpi, fruitless++);
            /* What is new since is worth quick looks. */
            fruitless = pst__mpi_has_jobs(mpi) ? fruitless : 0;
        }
        if (mpi->abort_wanted && !pst__mpi_is_orphaned(mpi))
            abort_now(mpi);
    }
}

/* Starts and ends MPI too, as its standard asks this of one thread. */
static void *thread_main(void *argument)
{
    pst_mpi *mpi = argument;
    pst__thread_sleep_exactly();
    const pst_status opened = pst__mpi_meet(mpi, mpi->open_error);
    pst__monitor_enter(&mpi->lock);
    mpi->opened = opened;
    mpi->state = opened ? PST__MPI_ENDED : PST__MPI_OPEN;
    pst__monitor_wake(&mpi->lock);
    if (mpi->state == PST__MPI_OPEN) {
        move_transfers(mpi);
        if (!mpi->failed) {
            pst__mpi_stop_listening(mpi);
            pst__mpi_part(mpi);
        }
        mpi->state = PST__MPI_ENDED;
    }
    pst__monitor_leave(&mpi->lock);
    return NULL;
}

/* ---- begin and end ---- */

static void free_all(pst_mpi *mpi)
{
    const pst_env env = mpi->env;
    pst__mpi_free_jobs(mpi);
    pst__monitor_fini(&mpi->lock);
    pst__mpi_unwatch(mpi);
    /* MPI may yet read or write notes that it was given. */
    if (mpi->failed)
        return;
    pst_release(&env, mpi->peers);
    pst_release(&env, mpi);
}

static pst_status wait_until_open(pst_mpi *mpi)
{
    pst__monitor_enter(&mpi->lock);
    while (mpi->state == PST__MPI_OPENING)
        pst__monitor_sleep(&mpi->lock, IDLE_NAP_NS);
    const pst_status opened = mpi->opened;
    pst__monitor_leave(&mpi->lock);
    return opened;
}

pst_status pst_mpi_open(const pst_env *env, pst_mpi **out, pst_error *err)
{
    pst_mpi_settings settings;
    pst_status status = pst__mpi_read_settings(&settings, err);
    if (status)
        return status;
    pst_mpi *mpi = pst_allocate(env, sizeof *mpi);
    if (!mpi)
        return pst_error_no_memory(err, "the MPI transport", sizeof *mpi);
    mpi->settings = settings;
    if (env)
        mpi->env = *env;
    mpi->open_error = err;
    mpi->to_post_end = &mpi->to_post;
    mpi->transport = (pst_transport){.self = mpi,
                                     .where = where,
                                     .send = send_to,
                                     .receive = receive_from,
                                     .progress = progress,
                                     .fail = fail,
                                     .failure = failure};
    pst__monitor_init(&mpi->lock);
    status = pst__thread_start(&mpi->thread, thread_main, mpi, "pst-mpi", err);
    if (!status) {
        status = wait_until_open(mpi);
        if (status)
            pst__thread_join(&mpi->thread);
    }
    if (status) {
        free_all(mpi);
        return status;
    }
    pst_log(env, PST_LOG_INFO, "%s: %s, %d processes%s",
            mpi->peers[mpi->transport.process].where, LIBRARY, mpi->transport.processes,
            mpi->funneled ? ", one thread calls MPI" : "");
    *out = mpi;
    return PST_OK;
}

pst_transport *pst_mpi_transport(pst_mpi *mpi)
{
    return &mpi->transport;
}

void pst_mpi_close(pst_mpi *mpi)
{
    if (!mpi)
        return;
    pst__monitor_enter(&mpi->lock);
    mpi->state = PST__MPI_CLOSING;
    pst__monitor_wake(&mpi->lock);
    pst__monitor_leave(&mpi->lock);
    pst__thread_join(&mpi->thread);
    free_all(mpi);
}

void pst_mpi_abort(pst_mpi *mpi, int status)
{
    pst__monitor_enter(&mpi->lock);
    mpi->abort_status = status;
    mpi->abort_wanted = true;
    pst__monitor_wake(&mpi->lock);
    /* Its thread ends the process; where that is stuck, this one does. */
    const uint64_t end_ns = pst__now_ns() + 5ull * ABORT_NS;
    while (!pst__mpi_is_orphaned(mpi) && pst__now_ns() < end_ns)
        pst__monitor_sleep(&mpi->lock, IDLE_NAP_NS);
    const bool orphaned = mpi->orphaned;
    pst__monitor_leave(&mpi->lock);
    if (orphaned)
        return;
    MPI_Abort(MPI_COMM_WORLD, status);
}
