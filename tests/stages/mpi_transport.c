/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_transport.c - the MPI transport between processes, for
 * tests/cli/mpi_transport.sh, which starts it by a launcher: mpi_transport MODE
 * [ARGUMENT]. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <penstock/mpi.h>
#include <penstock/version.h>

static pst_mpi *mpi;
static pst_transport *t;

/* Where libpenstock-mpi asks, it finds this one first. */
const char *pst_version_string(void)
{
    const char *other = getenv("TEST_VERSION");
    return other ? other : PST_VERSION_STRING;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void nap(double s)
{
    const struct timespec time = {.tv_sec = (time_t)s,
                                  .tv_nsec = (long)(1e9 * (s - (double)(time_t)s))};
    nanosleep(&time, NULL);
}

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            printf("process %d, line %d: %s; %s\n", t->process, __LINE__, #condition,  \
                   t->failure(t->self) ? t->failure(t->self) : "");                    \
            fflush(stdout);                                                            \
            pst_mpi_abort(mpi, 3);                                                     \
        }                                                                              \
    } while (0)

/* ---- transfers that are waited for ---- */

static atomic_int left;

static void count(pst_transfer *transfer)
{
    (void)transfer;
    /* release: pairs with wait_all, which then reads the transfer */
    atomic_fetch_sub_explicit(&left, 1, memory_order_release);
}

static void begin(pst_transfer *transfer, unsigned char mark)
{
    *transfer = (pst_transfer){.done = count};
    memset(transfer->header, mark, sizeof transfer->header);
    atomic_fetch_add(&left, 1);
}

static void give(int to, uint32_t tag, const void *data, size_t bytes, size_t most,
                 pst_transfer *transfer, unsigned char mark)
{
    begin(transfer, mark);
    t->send(t->self, to, tag, data, bytes, most, transfer);
}

static void take(int from, uint32_t tag, void *data, size_t most,
                 pst_transfer *transfer)
{
    begin(transfer, 0);
    t->receive(t->self, from, tag, data, most, transfer);
}

/* True: in time. Helps or only sleeps. */
static int wait_all(double limit, int help)
{
    const double end = seconds() + limit;
    while (atomic_load_explicit(&left, memory_order_acquire) > 0) {
        if (seconds() > end)
            return 0;
        if (help)
            t->progress(t->self);
        else
            nap(1e-4);
    }
    return 1;
}

static unsigned char pattern(size_t i, unsigned seed)
{
    return (unsigned char)(i * 31 + (i >> 9) + seed);
}

static void fill(unsigned char *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = pattern(i, seed);
}

static int filled(const unsigned char *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != pattern(i, seed))
            return 0;
    return 1;
}

/* ---- what should work ---- */

/* From each to the next, around; itself where it is alone. */
static void try_size(size_t bytes, size_t most, int help)
{
    const int next = (t->process + 1) % t->processes;
    const int before = (t->process + t->processes - 1) % t->processes;
    unsigned char *out = malloc(most + 1), *in = malloc(most + 1);
    EXPECT(out && in);
    fill(out, bytes, (unsigned)t->process);
    in[most] = 77;
    in[bytes] = 77;
    pst_transfer sent, got;
    take(before, 5, in, most, &got);
    give(next, 5, out, bytes, most, &sent, (unsigned char)(t->process + 1));
    EXPECT(wait_all(60, help));
    EXPECT(!sent.failed && !got.failed && got.bytes == bytes);
    EXPECT(got.header[0] == before + 1 &&
           got.header[PST_TRANSFER_HEADER - 1] == before + 1);
    EXPECT(filled(in, bytes, (unsigned)before));
    EXPECT(in[bytes] == 77 && in[most] == 77);
    free(out);
    free(in);
}

static void try_sizes(void)
{
    static const size_t sizes[] = {0,     1,     7,       48,      4000,
                                   65536, 65537, 1000003, 1 << 22, 1 << 26};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int help = 0; help < 2; help++) {
            try_size(sizes[i], sizes[i], help);
            try_size(sizes[i] / 3, sizes[i], help);
        }
}

/* Receives in another order than the sends, several in flight to each tag. */
static void try_tags(void)
{
    enum { TAGS = 50, EACH = 4 };
    const int next = (t->process + 1) % t->processes;
    const int before = (t->process + t->processes - 1) % t->processes;
    static unsigned out[TAGS][EACH], in[TAGS][EACH];
    static pst_transfer sent[TAGS][EACH], got[TAGS][EACH];
    const uint32_t last = t->tags - 3; /* those after are of gather and broadcast */
    for (unsigned i = 0; i < TAGS; i++)
        for (unsigned n = 0; n < EACH; n++) {
            out[i][n] = 1000 * i + n;
            give(next, last - i, &out[i][n], sizeof(unsigned), sizeof(unsigned),
                 &sent[i][n], (unsigned char)n);
        }
    for (unsigned i = TAGS; i-- > 0;)
        for (unsigned n = 0; n < EACH; n++)
            take(before, last - i, &in[i][n], sizeof(unsigned), &got[i][n]);
    EXPECT(wait_all(60, 1));
    for (unsigned i = 0; i < TAGS; i++)
        for (unsigned n = 0; n < EACH; n++)
            EXPECT(in[i][n] == 1000 * i + n && got[i][n].header[0] == n);
}

static void try_collective(void)
{
    pst_error err = PST_ERROR_INIT;
    for (int round = 0; round < 20; round++) {
        int own = 100 * round + t->process, all[64];
        EXPECT(!pst_transport_gather(t, &own, sizeof own, all, &err));
        for (int i = 0; i < t->processes; i++)
            EXPECT(all[i] == 100 * round + i);
        const int from = round % t->processes;
        int value = t->process == from ? 7 + round : 0;
        EXPECT(!pst_transport_broadcast(t, from, &value, sizeof value, &err));
        EXPECT(value == 7 + round);
    }
}

static void basics(void)
{
    for (int i = 0; i < t->processes; i++)
        EXPECT(strncmp(t->where(t->self, i), "process ", 8) == 0);
    try_collective();
    try_sizes();
    try_tags();
    try_collective();
    EXPECT(!t->failure(t->self));
    if (t->process == 0)
        printf("%s, %d processes, %u tags: as it should be\n", pst_mpi_library(),
               t->processes, t->tags);
}

static void large(void)
{
    const size_t bytes = ((size_t)1 << 31) + 8;
    unsigned char *data = calloc(1, bytes);
    EXPECT(data);
    pst_transfer one;
    if (t->process == 0) {
        fill(data, bytes, 3);
        give(1, 0, data, bytes, bytes, &one, 1);
    } else if (t->process == 1) {
        take(0, 0, data, bytes, &one);
    }
    EXPECT(wait_all(300, 1));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (t->process < 2)
        EXPECT(!one.failed && filled(data, bytes, 3));
    if (t->process == 1)
        printf("%zu bytes came, at most %ld MiB resident\n", one.bytes,
               usage.ru_maxrss / 1024);
    free(data);
}

/* ---- what should fail ---- */

static void end_failed(void)
{
    printf("%d: %s\n", t->process, t->failure(t->self));
    fflush(stdout);
    nap(0.3); /* or the first one's abort would come before the others' words */
    pst_mpi_abort(mpi, 1);
}

static char buffer[1 << 24];

/* Receives that never come, and a large send that nobody takes. */
static void wait_forever(double limit)
{
    static pst_transfer transfers[3];
    const int next = (t->process + 1) % t->processes;
    take(next, 9, buffer, 1 << 22, &transfers[0]);
    take(next, 10, buffer + (1 << 22), 1 << 22, &transfers[1]);
    give(next, 11, buffer + (1 << 23), 1 << 22, 1 << 22, &transfers[2], 0);
    printf("%d is process %ld\n", t->process, (long)getpid());
    fflush(stdout);
    EXPECT(wait_all(limit, t->process % 2));
    for (int i = 0; i < 3; i++)
        EXPECT(transfers[i].failed);
    /* and one that comes later, at once */
    pst_transfer late;
    take(next, 9, buffer, 1, &late);
    EXPECT(atomic_load(&left) == 0 && late.failed);
    EXPECT(t->failure(t->self));
    pst_error err = PST_ERROR_INIT;
    int all[64];
    EXPECT(pst_transport_gather(t, &next, sizeof next, all, &err) == PST_EPEER);
    EXPECT(strcmp(err.text, t->failure(t->self)) == 0);
}

static void fail_later(void)
{
    nap(0.2);
    t->fail(t->self, "something has gone wrong on purpose");
    t->fail(t->self, "and a second time");
}

static void failing(void)
{
    if (t->process == t->processes - 1)
        fail_later();
    wait_forever(10);
    end_failed();
}

/* The two sides disagree on how much there may be. */
static void mismatch(void)
{
    pst_transfer one;
    if (t->process == 0)
        give(1, 3, buffer, 10, 20, &one, 0);
    else if (t->process == 1)
        take(0, 3, buffer, 30, &one);
    EXPECT(wait_all(10, 1));
    const double end = seconds() + 10;
    while (!t->failure(t->self) && seconds() < end)
        nap(0.01);
    end_failed();
}

/* One closes while another still waits for it. */
static void closing(void)
{
    if (t->process == 1) {
        pst_mpi_close(mpi);
        exit(0);
    }
    pst_transfer one;
    take(1, 3, buffer, 30, &one);
    EXPECT(wait_all(10, 1) && one.failed);
    end_failed();
}

static int refuse(const pst_error *err)
{
    printf("refused: %s\n", err->text);
    fflush(stdout);
    return 1;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "basics";
    int started = 0;
    if (argc > 2 && strcmp(mode, "started") == 0) {
        int got;
        const int wanted = strcmp(argv[2], "multiple") == 0     ? MPI_THREAD_MULTIPLE
                           : strcmp(argv[2], "serialized") == 0 ? MPI_THREAD_SERIALIZED
                                                                : MPI_THREAD_FUNNELED;
        MPI_Init_thread(&argc, &argv, wanted, &got);
        started = 1;
    }
    pst_error err = PST_ERROR_INIT;
    if (pst_mpi_open(NULL, &mpi, &err)) {
        const int status = refuse(&err);
        if (started)
            MPI_Finalize();
        return status;
    }
    t = pst_mpi_transport(mpi);
    if (strcmp(mode, "large") == 0)
        large();
    else if (strcmp(mode, "fail") == 0)
        failing();
    else if (strcmp(mode, "wait") == 0) {
        wait_forever(30);
        end_failed();
    } else if (strcmp(mode, "mismatch") == 0)
        mismatch();
    else if (strcmp(mode, "closing") == 0)
        closing();
    else
        basics();
    pst_mpi_close(mpi);
    if (started) {
        int ended = 1;
        MPI_Finalized(&ended);
        if (ended)
            return 4;
        MPI_Finalize();
    }
    return 0;
}
