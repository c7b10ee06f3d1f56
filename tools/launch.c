/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.c - finds out who started the program, and loads the transport that fits. */
#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/launch.h"
#include "tools/say.h"

typedef struct flavour {
    const char *mpi; /* as pst_mpi_library() begins                             */
    const char *launcher;
    const char *library;
    const char *wrapper;
} flavour;

static const flavour open_mpi = {"Open MPI", "Open MPI's mpirun",
                                 "libpenstock-mpi-openmpi.so.0", "mpicc.openmpi"};
static const flavour mpich = {"MPICH", "MPICH's mpiexec", "libpenstock-mpi-mpich.so.0",
                              "mpicc.mpich"};

static int count_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

/* NULL: alone. Slurm's srun has MPICH's interface (PMI_SIZE) or PMIx, which is Open
 * MPI's. */
static const flavour *find_launcher(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        return count_of("OMPI_COMM_WORLD_SIZE") > 1 ? &open_mpi : NULL;
    if (count_of("PMI_SIZE") > 1)
        return &mpich;
    if (getenv("PMIX_RANK") && count_of("SLURM_STEP_NUM_TASKS") > 1)
        return &open_mpi;
    return NULL;
}

const char *launch_launcher(void)
{
    const flavour *found = find_launcher();
    return found ? found->launcher : NULL;
}

/* Beside the program (where it was built), where it is installed, or anywhere. */
static void *load(const flavour *wanted)
{
    static const char *const places[] = {"", ".libs/", "../lib/"};
    char path[PATH_MAX], folder[PATH_MAX - 128];
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length > 0) {
        folder[length] = 0;
        *(strrchr(folder, '/') + 1) = 0;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s%s%s", folder, places[i], wanted->library);
            void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
            if (library)
                return library;
        }
    }
    return dlopen(wanted->library, RTLD_NOW | RTLD_GLOBAL);
}

static void *refuse_missing(const flavour *wanted, pst_error *err)
{
    const flavour *other = wanted == &mpich ? &open_mpi : &mpich;
    char why[512];
    const char *text = dlerror();
    snprintf(why, sizeof why, "%s", text ? text : "it was not found");
    void *present = load(other);
    if (present) {
        dlclose(present);
        pst_error_set(err, PST_ESYSTEM,
                      "started by %s, but only the %s transport is installed: %s would "
                      "work, or configure with MPICC=%s",
                      wanted->launcher, other->mpi, other->launcher, wanted->wrapper);
    } else {
        pst_error_set(err, PST_ESYSTEM,
                      "started by %s, but there is no transport for %s (%s); configure "
                      "with MPICC=%s, or PENSTOCK_MPI_LIBRARY=FILE, would work",
                      wanted->launcher, wanted->mpi, why, wanted->wrapper);
    }
    return NULL;
}

static void *load_wanted(const flavour *wanted, pst_error *err)
{
    const char *given = getenv("PENSTOCK_MPI_LIBRARY");
    if (!given || !*given) {
        void *library = load(wanted);
        return library ? library : refuse_missing(wanted, err);
    }
    void *library = dlopen(given, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        pst_error_set(err, PST_ESYSTEM, "PENSTOCK_MPI_LIBRARY=%s: %s", given,
                      dlerror());
    return library;
}

/* True: all of them are there. What dlsym gives is a function, which C has no cast
 * for. */
static int find_functions(launch *out)
{
    const struct {
        const char *name;
        void *pointer;
    } all[] = {{"pst_mpi_library", &out->name},
               {"pst_mpi_open", &out->open},
               {"pst_mpi_transport", &out->transport},
               {"pst_mpi_close", &out->close},
               {"pst_mpi_abort", &out->abort}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *found = dlsym(out->library, all[i].name);
        if (!found)
            return 0;
        memcpy(all[i].pointer, &found, sizeof found);
    }
    return 1;
}

static void warn_of_srun(void)
{
    const int started = count_of("SLURM_STEP_NUM_TASKS");
    if (started > 1 && count_of("SLURM_PROCID") == 0)
        say_warning("srun has started %d of these, and each runs alone; --mpi=pmix for "
                    "Open MPI, or --mpi=pmi2 for MPICH, would join them",
                    started);
}

pst_transport *launch_open(const pst_env *env, launch *out, pst_error *err)
{
    memset(out, 0, sizeof *out);
    const flavour *wanted = find_launcher();
    if (!wanted) {
        warn_of_srun();
        return NULL;
    }
    /* See stages/mpi.h. */
    setenv("UCX_RNDV_THRESH", "64k", 0);
    out->launcher = wanted->launcher;
    out->library = load_wanted(wanted, err);
    if (!out->library)
        return NULL;
    if (!find_functions(out)) {
        pst_error_set(err, PST_ESYSTEM,
                      "PENSTOCK_MPI_LIBRARY is no transport of "
                      "Penstock's; libpenstock-mpi-*.so would work");
        return NULL;
    }
    if (strncmp(out->name(), wanted->mpi, strlen(wanted->mpi)) != 0) {
        pst_error_set(err, PST_ESYSTEM,
                      "started by %s, but the transport that was loaded is for %s; one "
                      "for %s would work",
                      wanted->launcher, out->name(), wanted->mpi);
        return NULL;
    }
    if (out->open(env, &out->mpi, err))
        return NULL;
    return out->transport(out->mpi);
}

/* The library stays loaded: MPI leaves threads and handlers behind. */
void launch_close(launch *own)
{
    if (own->mpi)
        own->close(own->mpi);
    own->mpi = NULL;
}

/* MPICH's launcher leaves unread what is in a pipe when a process aborts, and with it
 * why the process does. */
static void wait_until_read(int pipe)
{
    enum { TRIES = 1000 };
    struct stat kind;
    int left = 0;
    if (fstat(pipe, &kind) != 0 || !S_ISFIFO(kind.st_mode))
        return;
    for (int i = 0; i < TRIES && ioctl(pipe, FIONREAD, &left) == 0 && left > 0; i++)
        poll(NULL, 0, 1);
}

static void leave(int number)
{
    (void)number;
    _exit(1);
}

/* MPICH's MPI_Abort waits for an answer of the launcher, without end where that cannot
 * be reached any more. */
int launch_fail(launch *own, int status)
{
    enum { ABORT_SECONDS = 3 };
    if (own->mpi) {
        fflush(stdout);
        wait_until_read(STDOUT_FILENO);
        wait_until_read(STDERR_FILENO);
        signal(SIGALRM, leave);
        alarm(ABORT_SECONDS);
        own->abort(own->mpi, status);
    }
    return status;
}
