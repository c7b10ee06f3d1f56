/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_mpi_watch.c - processes of this machine that end without a word. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stages/transport_mpi.h"

enum {
    LOOK_NS = 10000000,
    /* One that fails tells why and ends; what it told counts if it comes so soon. */
    WORD_NS = 100000000
};

static size_t append_file(char *text, size_t used, size_t room, const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return used;
    const ssize_t got = read(file, text + used, room - used - 1);
    close(file);
    return got > 0 ? used + (size_t)got : used;
}

void pst__mpi_machine(char text[PST__MPI_MACHINE])
{
    memset(text, 0, PST__MPI_MACHINE);
    const size_t used =
        append_file(text, 0, PST__MPI_MACHINE, "/proc/sys/kernel/random/boot_id");
    /* Numbers of processes mean the same in one namespace alone. */
    const ssize_t got =
        readlink("/proc/self/ns/pid", text + used, PST__MPI_MACHINE - used - 1);
    if (used == 0 || got <= 0)
        text[0] = 0;
}

void pst__mpi_watch(pst_mpi *mpi)
{
    mpi->launcher = (int64_t)getppid();
    for (int i = 0; i < mpi->transport.processes; i++) {
        pst_mpi_peer *peer = &mpi->peers[i];
        peer->handle = -1;
#ifdef SYS_pidfd_open
        if (peer->pid > 0 && i != mpi->transport.process)
            peer->handle = (int)syscall(SYS_pidfd_open, (pid_t)peer->pid, 0);
#endif
    }
}

void pst__mpi_unwatch(pst_mpi *mpi)
{
    for (int i = 0; mpi->peers && i < mpi->transport.processes; i++) {
        if (mpi->peers[i].handle >= 0)
            close(mpi->peers[i].handle);
        mpi->peers[i].handle = -1;
    }
}

/* A handle tells of one that nobody has waited for yet, too. */
static bool has_ended(const pst_mpi_peer *peer)
{
    struct pollfd one = {.fd = peer->handle, .events = POLLIN};
    if (peer->handle >= 0)
        return poll(&one, 1, 0) == 1;
    return peer->pid > 0 && kill((pid_t)peer->pid, 0) != 0 && errno == ESRCH;
}

bool pst__mpi_is_orphaned(pst_mpi *mpi)
{
    mpi->orphaned = mpi->orphaned || (int64_t)getppid() != mpi->launcher;
    return mpi->orphaned;
}

void pst__mpi_look_for_ended(pst_mpi *mpi, uint64_t now)
{
    if (now - mpi->look_ns < LOOK_NS || mpi->abort_wanted)
        return;
    mpi->look_ns = now;
    if (pst__mpi_is_orphaned(mpi)) {
        pst__mpi_fail(mpi, "%s: the launcher (pid %lld) is gone",
                      mpi->peers[mpi->transport.process].where,
                      (long long)mpi->launcher);
        pst_log(&mpi->env, PST_LOG_ERROR, "%s", mpi->failure);
        return;
    }
    for (int i = 0; i < mpi->transport.processes; i++) {
        pst_mpi_peer *peer = &mpi->peers[i];
        if (i == mpi->transport.process || peer->goodbye_ns)
            continue;
        if (!peer->ended_ns && has_ended(peer))
            peer->ended_ns = now;
        if (peer->ended_ns && now - peer->ended_ns > WORD_NS + pst__mpi_turn_ns(mpi))
            pst__mpi_lose(mpi, i, "%s (pid %lld) is gone: it was killed or crashed",
                          peer->where, (long long)peer->pid);
    }
}
