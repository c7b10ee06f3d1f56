/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_mpi_control.c - signs of life, goodbyes, and failures that all hear of. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stages/transport_mpi.h"

enum { NOTE_MAGIC = 0x50535443, NOTE_TAG = 0 };

enum { NOTE_BEAT = 1, NOTE_GOODBYE, NOTE_FAILURE };

enum {
    SECOND_NS = 1000000000,
    /* MPI has so long to let go of buffers after a failure. */
    LET_GO_NS = 500000000,
    /* A message of a process that has closed comes so soon after its goodbye. */
    LATE_NS = 2000000000,
    /* Of those that miss a process the lowest says so, and the others hear it from that
     * one; so long after each other they say it themselves. */
    TURN_NS = 50000000,
    LAST_TURN = 8
};

void pst__mpi_fail(pst_mpi *mpi, const char *format, ...)
{
    if (mpi->failed)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mpi->failure, sizeof mpi->failure, format, arguments);
    va_end(arguments);
    mpi->failed = true;
    mpi->failed_ns = pst__now_ns();
}

uint64_t pst__mpi_turn_ns(const pst_mpi *mpi)
{
    const int process = mpi->transport.process;
    return (uint64_t)(process < LAST_TURN ? process : LAST_TURN) * TURN_NS;
}

void pst__mpi_lose(pst_mpi *mpi, int process, const char *format, ...)
{
    char text[PST__MPI_TEXT];
    if (mpi->failed)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mpi->transport.lost = process + 1;
    pst__mpi_fail(mpi, "%s", text);
    pst_log(&mpi->env, PST_LOG_ERROR, "%s", text);
}

char *pst__mpi_error_text(int code, char text[MPI_MAX_ERROR_STRING])
{
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, MPI_MAX_ERROR_STRING, "error %d of MPI", code);
    return text;
}

static int send_note(pst_mpi *mpi, int to, pst_mpi_note *note, uint32_t kind,
                     MPI_Request *request)
{
    note->magic = NOTE_MAGIC;
    note->kind = kind;
    return MPI_Isend(note, (int)(offsetof(pst_mpi_note, text) + strlen(note->text) + 1),
                     MPI_BYTE, to, NOTE_TAG, mpi->control, request);
}

static bool is_through(MPI_Request *request)
{
    int done = 1;
    if (*request != MPI_REQUEST_NULL)
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    return done;
}

static void tell_all(pst_mpi *mpi, uint32_t kind)
{
    for (int i = 0; i < mpi->transport.processes; i++)
        if (i != mpi->transport.process &&
            send_note(mpi, i, &mpi->last, kind, &mpi->peers[i].last) != MPI_SUCCESS)
            mpi->peers[i].last = MPI_REQUEST_NULL;
}

static bool all_are_told(pst_mpi *mpi)
{
    bool all = true;
    for (int i = 0; i < mpi->transport.processes; i++)
        all = is_through(&mpi->peers[i].last) && all;
    return all;
}

/* ---- what comes ---- */

void pst__mpi_listen(pst_mpi *mpi)
{
    MPI_Irecv(&mpi->inbox, sizeof mpi->inbox, MPI_BYTE, MPI_ANY_SOURCE, NOTE_TAG,
              mpi->control, &mpi->inbox_request);
}

void pst__mpi_stop_listening(pst_mpi *mpi)
{
    MPI_Cancel(&mpi->inbox_request);
    MPI_Wait(&mpi->inbox_request, MPI_STATUS_IGNORE);
}

static void read_note(pst_mpi *mpi, int from, uint64_t now)
{
    pst_mpi_peer *peer = &mpi->peers[from];
    pst_mpi_note *note = &mpi->inbox;
    note->text[sizeof note->text - 1] = 0;
    peer->heard_ns = now;
    if (note->magic != NOTE_MAGIC)
        pst__mpi_fail(mpi, "%s was told something that is not Penstock's by %s",
                      mpi->peers[mpi->transport.process].where, peer->where);
    else if (note->kind == NOTE_GOODBYE)
        peer->goodbye_ns = now;
    else if (note->kind == NOTE_FAILURE) {
        pst__mpi_fail(mpi, "%s", note->text);
        mpi->told = true; /* the others hear it from where it comes from */
    }
}

void pst__mpi_read_notes(pst_mpi *mpi, uint64_t now)
{
    mpi->control_ns = now;
    for (int i = 0; i < 2 * mpi->transport.processes; i++) {
        int done = 0;
        MPI_Status status;
        const int code = MPI_Test(&mpi->inbox_request, &done, &status);
        if (code != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING];
            pst__mpi_fail(mpi, "%s: control messages: %s",
                          mpi->peers[mpi->transport.process].where,
                          pst__mpi_error_text(code, text));
            return;
        }
        if (!done)
            return;
        read_note(mpi, status.MPI_SOURCE, now);
        pst__mpi_listen(mpi);
    }
}

/* ---- signs of life ---- */

static void give_signs(pst_mpi *mpi, uint64_t now)
{
    const uint64_t limit = mpi->settings.heartbeat_ns;
    const uint64_t pause = limit < 4ull * SECOND_NS ? limit / 4 : SECOND_NS;
    if (now - mpi->beat_ns < pause)
        return;
    mpi->beat_ns = now;
    for (int i = 0; i < mpi->transport.processes; i++) {
        pst_mpi_peer *peer = &mpi->peers[i];
        /* One that has not left yet says as much as two. */
        if (i == mpi->transport.process || !is_through(&peer->beat))
            continue;
        if (send_note(mpi, i, &mpi->beat, NOTE_BEAT, &peer->beat) != MPI_SUCCESS)
            peer->beat = MPI_REQUEST_NULL;
    }
}

static void look_for_signs(pst_mpi *mpi, uint64_t now)
{
    const uint64_t limit = mpi->settings.heartbeat_ns;
    /* A process that was stopped itself has heard of nobody: that time is not theirs.
     */
    const uint64_t gap = now - mpi->tick_ns;
    for (int i = 0; i < mpi->transport.processes; i++) {
        pst_mpi_peer *peer = &mpi->peers[i];
        if (i == mpi->transport.process || peer->goodbye_ns)
            continue;
        if (gap > SECOND_NS / 2)
            peer->heard_ns = peer->heard_ns + gap < now ? peer->heard_ns + gap : now;
        if (now > peer->heard_ns &&
            now - peer->heard_ns > limit + pst__mpi_turn_ns(mpi))
            pst__mpi_lose(mpi, i, "%s has not been heard of for %g s", peer->where,
                          (double)limit / SECOND_NS);
    }
}

static void look_for_late(pst_mpi *mpi, uint64_t now)
{
    for (int i = 0; i < mpi->transport.processes; i++) {
        const pst_mpi_peer *peer = &mpi->peers[i];
        if (peer->goodbye_ns && peer->jobs > 0 && now - peer->goodbye_ns > LATE_NS)
            pst__mpi_fail(mpi,
                          "%s has closed its end, and %s still has messages to or "
                          "from it",
                          peer->where, mpi->peers[mpi->transport.process].where);
    }
}

/* ---- failure and end ---- */

static void deal_with_failure(pst_mpi *mpi, uint64_t now)
{
    if (mpi->last.kind != NOTE_FAILURE) {
        memcpy(mpi->last.text, mpi->failure, sizeof mpi->last.text);
        mpi->last.kind = NOTE_FAILURE;
        if (!mpi->told && !mpi->said_goodbye)
            tell_all(mpi, NOTE_FAILURE);
        pst__mpi_cancel(mpi);
    }
    const bool late = now - mpi->failed_ns > LET_GO_NS;
    if ((all_are_told(mpi) && !pst__mpi_has_jobs(mpi)) || late) {
        pst__mpi_abandon(mpi);
        mpi->silent = true;
    }
}

void pst__mpi_tick(pst_mpi *mpi, uint64_t now)
{
    if (!mpi->failed) {
        if (mpi->settings.heartbeat_ns && !mpi->said_goodbye)
            give_signs(mpi, now);
        if (mpi->settings.heartbeat_ns)
            look_for_signs(mpi, now);
        look_for_late(mpi, now);
        pst__mpi_look_for_ended(mpi, now);
        mpi->tick_ns = now;
    }
    if (mpi->failed && !mpi->silent)
        deal_with_failure(mpi, now);
}

void pst__mpi_say_goodbye(pst_mpi *mpi)
{
    mpi->said_goodbye = true;
    tell_all(mpi, NOTE_GOODBYE);
}

bool pst__mpi_may_part(pst_mpi *mpi)
{
    bool may = all_are_told(mpi);
    for (int i = 0; i < mpi->transport.processes; i++) {
        pst_mpi_peer *peer = &mpi->peers[i];
        may = may && is_through(&peer->beat) &&
              (i == mpi->transport.process || peer->goodbye_ns);
    }
    return may;
}
