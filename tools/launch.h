/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - who started this program, and the transport to the processes beside it.
 *
 * A program is not linked with any MPI. Where a launcher of MPI has started several
 * processes, the library for that MPI is loaded: $PENSTOCK_MPI_LIBRARY, or one beside
 * the program, or where the system looks for libraries.
 */
#ifndef PST_TOOLS_LAUNCH_H
#define PST_TOOLS_LAUNCH_H

#include <penstock/mpi.h>

/* The functions of <penstock/mpi.h>, of the library that was loaded. */
typedef struct launch {
    pst_mpi *mpi; /* NULL: the program runs alone                              */
    const char *launcher; /* "Open MPI's mpirun"                               */
    void *library;
    const char *(*name)(void);
    pst_status (*open)(const pst_env *env, pst_mpi **out, pst_error *err);
    pst_transport *(*transport)(pst_mpi *mpi);
    void (*close)(pst_mpi *mpi);
    void (*abort)(pst_mpi *mpi, int status);
} launch;

/* "Open MPI's mpirun", which has started several processes; NULL: the program is alone.
 */
const char *launch_launcher(void);

/*
 * The transport, borrowed from *out; NULL where the program runs alone or `err` is set.
 * To be called once, before threads are started. Errors: PST_ESYSTEM  the library for
 * this launcher is not there, or is for another MPI; as pst_mpi_open.
 */
pst_transport *launch_open(const pst_env *env, launch *out, pst_error *err);

/* All processes; nothing where the program runs alone. */
void launch_close(launch *own);

/* After a failure that has been printed: end all processes. Returns `status` where the
 * program runs alone. */
int launch_fail(launch *own, int status);

#endif
