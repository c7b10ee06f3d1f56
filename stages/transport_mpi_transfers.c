/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_mpi_transfers.c - messages of any size as requests of MPI. */
#include <inttypes.h>
#include <string.h>

#include "stages/transport_mpi.h"

enum { MAGIC = 0x50535458, JOBS_OF_A_BLOCK = 64 };

typedef struct job_block {
    struct job_block *next;
    pst_mpi_job jobs[JOBS_OF_A_BLOCK];
} job_block;

static pst_mpi_job *take_job(pst_mpi *mpi)
{
    if (!mpi->free_jobs) {
        job_block *block = pst_allocate(NULL, sizeof *block);
        if (!block)
            return NULL;
        block->next = mpi->blocks;
        mpi->blocks = block;
        for (int i = 0; i < JOBS_OF_A_BLOCK; i++) {
            block->jobs[i].next = mpi->free_jobs;
            mpi->free_jobs = &block->jobs[i];
        }
    }
    pst_mpi_job *job = mpi->free_jobs;
    mpi->free_jobs = job->next;
    return job;
}

void pst__mpi_free_jobs(pst_mpi *mpi)
{
    /* What MPI may write yet stays for good. */
    if (mpi->abandoned)
        return;
    for (job_block *block = mpi->blocks; block;) {
        job_block *next = block->next;
        pst_release(NULL, block);
        block = next;
    }
    pst_release(NULL, mpi->requests);
    pst_release(NULL, mpi->owners);
    pst_release(NULL, mpi->statuses);
    pst_release(NULL, mpi->indices);
}

static void end(pst_transfer *transfer, bool failed)
{
    transfer->failed = failed;
    transfer->done(transfer);
}

static void end_job(pst_mpi *mpi, pst_mpi_job *job)
{
    pst_transfer *transfer = job->transfer;
    if (job->receives) {
        memcpy(transfer->header, job->header.user, PST_TRANSFER_HEADER);
        transfer->bytes = (size_t)job->header.bytes;
    }
    mpi->peers[job->peer].jobs--;
    job->next = mpi->free_jobs;
    mpi->free_jobs = job;
    end(transfer, mpi->failed);
}

/* ---- posting ---- */

static void *grown(void *old, size_t before, size_t after, size_t size)
{
    return pst_grow(NULL, old, before * size, after * size);
}

static bool make_room(pst_mpi *mpi, size_t more)
{
    if (mpi->active + more <= mpi->room)
        return true;
    const size_t room = 2 * (mpi->active + more);
    void *requests = grown(mpi->requests, mpi->room, room, sizeof *mpi->requests);
    mpi->requests = requests ? requests : mpi->requests;
    void *owners = grown(mpi->owners, mpi->room, room, sizeof *mpi->owners);
    mpi->owners = owners ? owners : mpi->owners;
    void *statuses = grown(mpi->statuses, mpi->room, room, sizeof *mpi->statuses);
    mpi->statuses = statuses ? statuses : mpi->statuses;
    void *indices = grown(mpi->indices, mpi->room, room, sizeof *mpi->indices);
    mpi->indices = indices ? indices : mpi->indices;
    if (!requests || !owners || !statuses || !indices)
        return false;
    mpi->room = room;
    return true;
}

static void post(pst_mpi *mpi, pst_mpi_job *job, void *data, uint64_t bytes,
                 bool header)
{
    if (job->code != MPI_SUCCESS)
        return;
    MPI_Request *request = &mpi->requests[mpi->active];
    if (job->receives)
        job->code = MPI_Irecv(data, (int)bytes, MPI_BYTE, job->peer, (int)job->tag,
                              mpi->data, request);
    else
        job->code = MPI_Isend(data, (int)bytes, MPI_BYTE, job->peer, (int)job->tag,
                              mpi->data, request);
    if (job->code != MPI_SUCCESS)
        return;
    mpi->owners[mpi->active++] = (pst_mpi_request){.job = job, .header = header};
    job->left++;
}

static uint64_t part(uint64_t bytes, uint64_t from, uint64_t chunk)
{
    const uint64_t rest = bytes > from ? bytes - from : 0;
    return rest < chunk ? rest : chunk;
}

/*
 * To another host go parts so small that MPI sends them without asking first; over TCP
 * Open MPI does so up to 64 KiB with its own header, and UCX below UCX_RNDV_THRESH,
 * which programs set. The answer to a question would stand behind all that the receiver
 * is itself sending, as two processes have one connection: large messages of the two
 * directions took turns, each with half of the link. More than FAR_PARTS would cost
 * more to look after than it gains.
 */
enum { FAR_PART = 60 << 10, FAR_PARTS = 256 };

static uint64_t part_size(const pst_mpi *mpi, const pst_mpi_job *job)
{
    const uint64_t chunk = mpi->settings.chunk;
    if (!mpi->peers[job->peer].far)
        return chunk;
    const uint64_t least = job->most / FAR_PARTS + 1;
    const uint64_t part = least > FAR_PART ? least : FAR_PART;
    return part < chunk ? part : chunk;
}

static void blame_mpi(pst_mpi *mpi, const pst_mpi_job *job)
{
    char text[MPI_MAX_ERROR_STRING];
    pst__mpi_fail(mpi, "%s: the message %s %s, tag %" PRIu32 ": %s",
                  mpi->peers[mpi->transport.process].where,
                  job->receives ? "from" : "to", mpi->peers[job->peer].where, job->tag,
                  pst__mpi_error_text(job->code, text));
}

/* Both sides know `most`, and so the number of parts; those beyond `bytes` are empty.
 */
static void post_job(pst_mpi *mpi, pst_mpi_job *job)
{
    const uint64_t chunk = part_size(mpi, job);
    const uint64_t parts = job->most / chunk + (job->most % chunk != 0);
    if (!mpi->failed && !make_room(mpi, (size_t)parts + 1))
        pst__mpi_fail(mpi, "%s has no memory for messages",
                      mpi->peers[mpi->transport.process].where);
    if (!mpi->failed) {
        post(mpi, job, &job->header, sizeof job->header, true);
        for (uint64_t from = 0; from < job->most; from += chunk)
            post(mpi, job, job->data + from,
                 part(job->receives ? job->most : job->bytes, from, chunk), false);
        if (job->code != MPI_SUCCESS)
            blame_mpi(mpi, job);
    }
    if (job->left == 0)
        end_job(mpi, job);
}

void pst__mpi_post(pst_mpi *mpi)
{
    while (mpi->to_post) {
        pst_mpi_job *job = mpi->to_post;
        mpi->to_post = job->next;
        if (!mpi->to_post)
            mpi->to_post_end = &mpi->to_post;
        post_job(mpi, job);
    }
}

void pst__mpi_start(pst_mpi *mpi, pst_mpi_job given)
{
    pst_mpi_job *job = mpi->failed ? NULL : take_job(mpi);
    if (!job) {
        pst__mpi_fail(mpi, "%s has no memory for messages",
                      mpi->peers[mpi->transport.process].where);
        end(given.transfer, true);
        return;
    }
    *job = given;
    job->code = MPI_SUCCESS;
    if (!job->receives) {
        job->header = (pst_mpi_header){.magic = MAGIC,
                                       .protocol = PST__MPI_PROTOCOL,
                                       .bytes = job->bytes,
                                       .most = job->most};
        memcpy(job->header.user, job->transfer->header, PST_TRANSFER_HEADER);
    }
    mpi->peers[job->peer].jobs++;
    *mpi->to_post_end = job;
    mpi->to_post_end = &job->next;
    if (!mpi->funneled)
        pst__mpi_post(mpi);
}

/* ---- completion ---- */

/* A header that came: is it what this receive expects? Found out at once, since parts
 * that nobody sends would be waited for. */
static void check_header(pst_mpi *mpi, const pst_mpi_job *job)
{
    const pst_mpi_header *header = &job->header;
    const char *here = mpi->peers[mpi->transport.process].where;
    const char *there = mpi->peers[job->peer].where;
    if (header->magic != MAGIC)
        pst__mpi_fail(mpi,
                      "%s took a message from %s, tag %" PRIu32
                      ", that does not begin as Penstock's do",
                      here, there, job->tag);
    else if (header->protocol != PST__MPI_PROTOCOL)
        pst__mpi_fail(mpi, "%s speaks protocol %d, and %s protocol %" PRIu32, here,
                      PST__MPI_PROTOCOL, there, header->protocol);
    else if (header->most != job->most)
        pst__mpi_fail(mpi,
                      "%s has room for %" PRIu64 " bytes, and %s, which sends to it by "
                      "tag %" PRIu32 ", counts on room for %" PRIu64,
                      here, job->most, there, job->tag, header->most);
}

static void check_length(pst_mpi *mpi, const pst_mpi_job *job)
{
    if (job->came != job->header.bytes)
        pst__mpi_fail(mpi,
                      "%s got %" PRIu64 " bytes of a message by tag %" PRIu32
                      " from %s, which says that it has %" PRIu64,
                      mpi->peers[mpi->transport.process].where, job->came, job->tag,
                      mpi->peers[job->peer].where, job->header.bytes);
}

static void complete(pst_mpi *mpi, size_t index, const MPI_Status *status, int code)
{
    pst_mpi_job *job = mpi->owners[index].job;
    mpi->owners[index].job = NULL;
    job->left--;
    if (code != MPI_SUCCESS && job->code == MPI_SUCCESS)
        job->code = code;
    if (job->receives && code == MPI_SUCCESS && !mpi->failed) {
        int bytes = 0;
        MPI_Get_count(status, MPI_BYTE, &bytes);
        if (mpi->owners[index].header)
            check_header(mpi, job);
        else
            job->came += (uint64_t)bytes;
    }
    if (job->left > 0)
        return;
    if (job->code != MPI_SUCCESS)
        blame_mpi(mpi, job);
    else if (job->receives && !mpi->failed)
        check_length(mpi, job);
    end_job(mpi, job);
}

static void close_gaps(pst_mpi *mpi)
{
    size_t kept = 0;
    for (size_t i = 0; i < mpi->active; i++)
        if (mpi->owners[i].job) {
            mpi->owners[kept] = mpi->owners[i];
            mpi->requests[kept++] = mpi->requests[i];
        }
    mpi->active = kept;
}

bool pst__mpi_test(pst_mpi *mpi)
{
    if (mpi->active == 0)
        return false;
    int count = 0;
    const int code = MPI_Testsome((int)mpi->active, mpi->requests, &count, mpi->indices,
                                  mpi->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        char text[MPI_MAX_ERROR_STRING];
        pst__mpi_fail(mpi, "%s: MPI_Testsome: %s",
                      mpi->peers[mpi->transport.process].where,
                      pst__mpi_error_text(code, text));
        return false;
    }
    if (count == MPI_UNDEFINED || count == 0)
        return false;
    for (int i = 0; i < count; i++)
        complete(mpi, (size_t)mpi->indices[i], &mpi->statuses[i],
                 code == MPI_SUCCESS ? MPI_SUCCESS : mpi->statuses[i].MPI_ERROR);
    close_gaps(mpi);
    return true;
}

bool pst__mpi_has_jobs(const pst_mpi *mpi)
{
    return mpi->active > 0 || mpi->to_post;
}

/* ---- failure ---- */

void pst__mpi_cancel(pst_mpi *mpi)
{
    pst__mpi_post(mpi); /* which only ends them now */
    for (size_t i = 0; i < mpi->active; i++)
        if (mpi->owners[i].job->receives)
            MPI_Cancel(&mpi->requests[i]);
}

void pst__mpi_abandon(pst_mpi *mpi)
{
    for (size_t i = 0; i < mpi->active; i++) {
        pst_mpi_job *job = mpi->owners[i].job;
        mpi->abandoned = true;
        if (!job->transfer)
            continue;
        pst_transfer *transfer = job->transfer;
        job->transfer = NULL;
        mpi->peers[job->peer].jobs--;
        end(transfer, true);
    }
    mpi->active = 0;
}
