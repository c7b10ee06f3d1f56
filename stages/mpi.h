/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.h - a transport over MPI: libpenstock-mpi-openmpi, libpenstock-mpi-mpich.
 *
 * A library of its own for each MPI, since their ABIs differ; libpenstock needs none.
 *
 * Threads: MPI_THREAD_MULTIPLE is asked for, and less works too: with
 * MPI_THREAD_SERIALIZED, where the program makes no call of MPI between open and close,
 * and with MPI_THREAD_FUNNELED where MPI is started here. A thread of the transport's
 * own moves transfers on when nobody waits for them; it sleeps when there is nothing to
 * move. Settings come from the environment, as launchers of MPI pass them:
 *
 *   PENSTOCK_HEARTBEAT=SECONDS  a process not heard of for so long is given up, and
 *                               all others fail with its name (30; 0: never)
 *   PENSTOCK_MPI_THREADS=multiple|serialized|funneled
 *                               the most to ask for (multiple)
 *   PENSTOCK_MPI_TAG_UB=N       the largest tag to use
 *   PENSTOCK_MPI_CHUNK=BYTES    the largest single message (2^30)
 *
 * Failure: a transfer ends as soon as MPI has let go of its buffer. What MPI cannot
 * cancel (a message that is half through) ends after half a second all the same; no
 * call of MPI but MPI_Abort is made from then on, so that the buffer is not written.
 * Beside signs of life, a process notices within half a second that one on the same
 * machine, or its own launcher, has ended without a goodbye. Whoever notices it first
 * tells the log (PST_LOG_ERROR) and the others.
 */
#ifndef PENSTOCK_MPI_H
#define PENSTOCK_MPI_H

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/transport.h>

PST_BEGIN_DECLS

typedef struct pst_mpi pst_mpi;

/*
 * All processes of MPI_COMM_WORLD, which all call it. Starts MPI where the program has
 * not. Where that uses UCX, UCX_RNDV_THRESH=64k in the environment keeps messages of
 * both directions between two hosts from waiting for each other.
 *
 * Owns:   *out is the caller's: pst_mpi_close() or pst_mpi_abort().
 * Errors: PST_EINVAL  a variable of the environment; PST_ESYSTEM  MPI was started with
 *         too few rights for threads, or has ended; processes have different versions
 *         of Penstock; PST_ENOMEM.
 */
PST_API pst_status pst_mpi_open(const pst_env *env, pst_mpi **out, pst_error *err);

/* Borrowed; until close. */
PST_API pst_transport *pst_mpi_transport(pst_mpi *mpi);

/* "Open MPI 4.1.4": what this library was built with. */
PST_API const char *pst_mpi_library(void);

/*
 * Tell the others, wait until they close too, and end MPI where open has started it.
 * Transfers that are not done make it a failure. After a failure MPI is not ended, as
 * that would wait for processes that may be gone: pst_mpi_abort() is the better end.
 * NULL allowed.
 */
PST_API void pst_mpi_close(pst_mpi *mpi);

/* End all processes, once they have been told of the failure, if there is one. To be
 * called when it has been printed. Does not return where MPI works; where the launcher
 * is gone it does, and each process ends by itself. */
PST_API void pst_mpi_abort(pst_mpi *mpi, int status);

PST_END_DECLS

#endif
