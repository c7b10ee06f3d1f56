/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_mpi_open.c - settings, the start of MPI, and the first meeting. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/version.h>

#include "stages/transport_mpi.h"

/* The last two tags are the transport's own collective calls (transport.c). */
enum { FEWEST_TAGS = 16, MOST_BYTES = 1 << 30 };

/* ---- settings ---- */

/* The one place of the libraries that reads the environment: launchers of MPI pass
 * settings that way, and every process must have the same. */
static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static pst_status read_number(const char *name, uint64_t lowest, uint64_t highest,
                              uint64_t *out, pst_error *err)
{
    const char *text = variable(name);
    if (!text)
        return PST_OK;
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || strchr(text, '-') || value < lowest || value > highest)
        return pst_error_set(err, PST_EINVAL,
                             "%s=%s: it is a whole number from %" PRIu64 " to %" PRIu64,
                             name, text, lowest, highest);
    *out = value;
    return PST_OK;
}

static pst_status read_threads(int *out, pst_error *err)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"multiple", MPI_THREAD_MULTIPLE},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"funneled", MPI_THREAD_FUNNELED}};
    const char *text = variable("PENSTOCK_MPI_THREADS");
    *out = MPI_THREAD_MULTIPLE;
    if (!text)
        return PST_OK;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(text, levels[i].name) == 0) {
            *out = levels[i].level;
            return PST_OK;
        }
    return pst_error_set(err, PST_EINVAL,
                         "PENSTOCK_MPI_THREADS=%s: it is multiple, serialized or "
                         "funneled",
                         text);
}

pst_status pst__mpi_read_settings(pst_mpi_settings *out, pst_error *err)
{
    uint64_t seconds = 30, largest_tag = INT32_MAX;
    out->chunk = MOST_BYTES;
    pst_status status = read_threads(&out->threads, err);
    if (!status)
        status = read_number("PENSTOCK_HEARTBEAT", 0, 1000000, &seconds, err);
    if (!status)
        status = read_number("PENSTOCK_MPI_TAG_UB", FEWEST_TAGS - 1, INT32_MAX,
                             &largest_tag, err);
    if (!status)
        status = read_number("PENSTOCK_MPI_CHUNK", 1, MOST_BYTES, &out->chunk, err);
    out->heartbeat_ns = seconds * 1000000000;
    out->tags = (uint32_t)largest_tag + 1;
    return status;
}

/* ---- MPI ---- */

static pst_status start_mpi(pst_mpi *mpi, pst_error *err)
{
    static const char *const names[] = {"SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"};
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED,
                                 MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int started = 0, ended = 0, got = MPI_THREAD_SINGLE;
    MPI_Finalized(&ended);
    if (ended)
        return pst_error_set(err, PST_ESYSTEM,
                             "MPI has been ended in this process and cannot be started "
                             "again; pst_mpi_open() before MPI_Finalize() would work");
    MPI_Initialized(&started);
    mpi->started = !started;
    if (started)
        MPI_Query_thread(&got);
    else
        MPI_Init_thread(NULL, NULL, mpi->settings.threads, &got);
    const int needed = started ? MPI_THREAD_SERIALIZED : MPI_THREAD_FUNNELED;
    mpi->funneled =
        got < MPI_THREAD_SERIALIZED || mpi->settings.threads < MPI_THREAD_SERIALIZED;
    if (got >= needed)
        return PST_OK;
    const char *name = "?";
    for (int i = 0; i < 4; i++)
        name = levels[i] == got ? names[i] : name;
    if (started)
        return pst_error_set(
            err, PST_ESYSTEM,
            "the program has started MPI with MPI_THREAD_%s, where only "
            "its own thread may call MPI; MPI_Init_thread() with "
            "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE would work, "
            "or leaving the start to pst_mpi_open()",
            name);
    return pst_error_set(err, PST_ESYSTEM,
                         "this MPI gives MPI_THREAD_%s only; one that gives "
                         "MPI_THREAD_FUNNELED would work",
                         name);
}

/* What all processes of any version tell each other first. Never to be changed. */
typedef struct introduction {
    char magic[8];
    uint32_t protocol;
    char version[52];
} introduction;

/* Then those of one version: */
typedef struct meeting {
    char host[MPI_MAX_PROCESSOR_NAME];
    char machine[PST__MPI_MACHINE];
    int64_t pid;
    uint32_t tags;
    uint64_t chunk;
} meeting;

static pst_status compare_versions(pst_mpi *mpi, introduction *all, pst_error *err)
{
    introduction own = {.magic = "PENSTOCK", .protocol = PST__MPI_PROTOCOL};
    snprintf(own.version, sizeof own.version, "%s", pst_version_string());
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, mpi->control);
    for (int i = 1; i < mpi->transport.processes; i++) {
        all[i].version[sizeof all[i].version - 1] = 0;
        if (memcmp(&all[i], &all[0], sizeof *all) != 0)
            return pst_error_set(err, PST_ESYSTEM,
                                 "process 0 has Penstock %s (protocol %" PRIu32
                                 "), and process %d Penstock %s (protocol %" PRIu32
                                 "); the same version on all hosts would work",
                                 all[0].version, all[0].protocol, i, all[i].version,
                                 all[i].protocol);
    }
    return PST_OK;
}

/* Names of all, and the settings that all can do. */
static void compare_settings(pst_mpi *mpi, meeting *all)
{
    meeting own = {.tags = mpi->settings.tags, .chunk = mpi->settings.chunk};
    int length = 0, found = 0;
    MPI_Get_processor_name(own.host, &length);
    pst__mpi_machine(own.machine);
    own.pid = (int64_t)getpid();
    int *largest = NULL;
    MPI_Comm_get_attr(mpi->data, MPI_TAG_UB, &largest, &found);
    const uint32_t tags = (found ? (uint32_t)*largest : 32767) + 1;
    own.tags = tags < own.tags ? tags : own.tags;
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, mpi->control);
    for (int i = 0; i < mpi->transport.processes; i++) {
        pst_mpi_peer *peer = &mpi->peers[i];
        all[i].host[sizeof all[i].host - 1] = 0;
        snprintf(peer->where, sizeof peer->where, "process %d on %s", i, all[i].host);
        peer->far = strcmp(all[i].host, own.host) != 0;
        if (own.machine[0] &&
            memcmp(all[i].machine, own.machine, sizeof own.machine) == 0)
            peer->pid = all[i].pid;
        own.tags = all[i].tags < own.tags ? all[i].tags : own.tags;
        own.chunk = all[i].chunk < own.chunk ? all[i].chunk : own.chunk;
    }
    mpi->transport.tags = own.tags;
    mpi->settings.chunk = own.chunk;
    pst__mpi_watch(mpi);
}

static pst_status meet(pst_mpi *mpi, pst_error *err)
{
    const size_t count = (size_t)mpi->transport.processes;
    mpi->peers = pst_allocate_array(&mpi->env, count, sizeof *mpi->peers);
    introduction *introductions =
        pst_allocate_array(NULL, count, sizeof *introductions);
    meeting *meetings = pst_allocate_array(NULL, count, sizeof *meetings);
    int without = !mpi->peers || !introductions || !meetings;
    MPI_Allreduce(MPI_IN_PLACE, &without, 1, MPI_INT, MPI_MAX, mpi->control);
    pst_status status = without ? pst_error_no_memory(err, "what processes tell", 0)
                                : compare_versions(mpi, introductions, err);
    if (!status)
        compare_settings(mpi, meetings);
    pst_release(NULL, introductions);
    pst_release(NULL, meetings);
    const uint64_t now = pst__now_ns();
    for (size_t i = 0; !status && i < count; i++) {
        mpi->peers[i].beat = mpi->peers[i].last = MPI_REQUEST_NULL;
        mpi->peers[i].heard_ns = now;
    }
    return status;
}

pst_status pst__mpi_meet(pst_mpi *mpi, pst_error *err)
{
    pst_status status = start_mpi(mpi, err);
    if (status)
        return status;
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->control);
    MPI_Comm_set_errhandler(mpi->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi->control, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->data, &mpi->transport.process);
    MPI_Comm_size(mpi->data, &mpi->transport.processes);
    status = meet(mpi, err);
    if (status) {
        pst__mpi_part(mpi);
        return status;
    }
    mpi->tick_ns = mpi->beat_ns = pst__now_ns();
    pst__mpi_listen(mpi);
    return PST_OK;
}

void pst__mpi_part(pst_mpi *mpi)
{
    MPI_Comm_free(&mpi->data);
    MPI_Comm_free(&mpi->control);
    if (mpi->started)
        MPI_Finalize();
}
