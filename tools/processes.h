/* SPDX-License-Identifier: BSD-3-Clause */
/* processes.h - a run on one process or several: who they are, and what they agree on.
 */
#ifndef PST_TOOLS_PROCESSES_H
#define PST_TOOLS_PROCESSES_H

#include <penstock/pipeline.h>
#include <penstock/transport.h>

#include "tools/launch.h"

/* What the bits of a run depend on besides its arguments. */
typedef struct likeness {
    char version[32];
    char core[32]; /* the kernels of OpenBLAS                                  */
    char kernels[32];
    char config[128]; /* of OpenBLAS                                           */
} likeness;

typedef struct processes {
    launch launch;
    pst_transport *transport; /* NULL: there is one                            */
    int *process_of_rank;     /* of processes_place()                          */
    int leads;                /* the one that prints and writes files           */
    int mixed;                /* not all are alike, and that was allowed        */
    int agreed;               /* all know of a failure, and end by themselves   */
} processes;

/* Find the others; before threads are started. Zeroed before. Errors: as launch_open().
 */
pst_status processes_join(const pst_env *env, processes *own, pst_error *err);

/* The processes must have one version, BLAS and kernels, or bits differ; else they are
 * refused with what would make them alike, or where `allow` marked as mixed. */
pst_status processes_compare(processes *own, int allow, pst_error *err);

/* They must have been told the same, as options_tell() writes it. `told` has `size`
 * bytes on all, lines that can stand behind "process 1 has"; the first that differs is
 * named. Errors: as processes_agree(). */
pst_status processes_compare_told(processes *own, const char *told, size_t size,
                                  pst_error *err);

/* What each is, into all[processes]. All call it. */
pst_status processes_likeness(const processes *own, likeness *all, pst_error *err);

/* All go on, or none: `status` and `err` become those of the first process that has
 * found something, on the one that prints, and PST_EPEER on the others. */
pst_status processes_agree(processes *own, pst_status status, pst_error *err);

/* All have found the same: the one that prints says it, for the others it becomes
 * PST_EPEER, and all end by themselves. */
pst_status processes_found(processes *own, pst_status status, pst_error *err);

/*
 * Which process runs each of `ranks` ranks, into own->process_of_rank. `workers` NULL:
 * about as many each; else how many each process has, "2,1,1". Consecutive ranks are in
 * one process, and consecutive processes on one host.
 * Errors: PST_EINVAL, PST_ENOMEM.
 */
pst_status processes_place(processes *own, int ranks, const char *workers,
                           pst_error *err);

/* A line on each worker, and where there are several processes on whose it is. All
 * call it; the first prints. */
pst_status processes_print_binding(const processes *own, const pst_pipeline *pipeline,
                                   int ranks, pst_error *err);

/* The end of a run that went well. */
void processes_leave(processes *own);

/* The end of all processes, and of the job. `told` 0: another has failed, and still has
 * to say so: it ends this one, or is given 2 s. Returns `status`. */
int processes_fail(processes *own, int status, int told);

#endif
