/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_mpi.h - what the files of the MPI transport share.
 *
 * One lock guards all of pst_mpi, and every call of MPI between open and close is made
 * inside it; where MPI was started with MPI_THREAD_FUNNELED, by its thread alone. All
 * functions here are called inside.
 */
#ifndef PENSTOCK_STAGES_TRANSPORT_MPI_H
#define PENSTOCK_STAGES_TRANSPORT_MPI_H

#include <mpi.h>
#include <stdbool.h>

#include <penstock/mpi.h>

#include "stages/thread.h"

/* Changes with anything that processes say to each other. */
enum { PST__MPI_PROTOCOL = 2 };

enum { PST__MPI_TEXT = sizeof((pst_error *)0)->text, PST__MPI_MACHINE = 96 };

typedef struct pst_mpi_settings {
    int threads; /* MPI_THREAD_..., the most to ask for                         */
    uint32_t tags;
    uint64_t chunk;
    uint64_t heartbeat_ns; /* limit; 0: none                                      */
} pst_mpi_settings;

/* The first message of a transfer. */
typedef struct pst_mpi_header {
    uint32_t magic;
    uint32_t protocol;
    uint64_t bytes;
    uint64_t most;
    unsigned char user[PST_TRANSFER_HEADER];
} pst_mpi_header;

typedef struct pst_mpi_job {
    struct pst_mpi_job *next; /* of the free ones, or of those to be posted */
    pst_transfer *transfer;
    char *data;
    uint64_t bytes;
    uint64_t most;
    uint64_t came;
    uint32_t tag;
    int peer;
    int left; /* requests that MPI has                                          */
    int code; /* what MPI said, MPI_SUCCESS or the first error                  */
    bool receives;
    pst_mpi_header header;
} pst_mpi_job;

typedef struct pst_mpi_request {
    pst_mpi_job *job; /* NULL: done with                                        */
    bool header;
} pst_mpi_request;

/* A message of the control communicator; of the text what is used is sent. */
typedef struct pst_mpi_note {
    uint32_t magic;
    uint32_t kind;
    char text[PST__MPI_TEXT];
} pst_mpi_note;

typedef struct pst_mpi_peer {
    char where[MPI_MAX_PROCESSOR_NAME + 40];
    uint64_t heard_ns;   /* when there was last a sign of life                  */
    uint64_t goodbye_ns; /* 0: it has not said goodbye                          */
    uint64_t ended_ns;   /* when it was found to have ended; 0: it has not      */
    int64_t pid;         /* 0: on another machine                               */
    int handle;          /* of the process; -1: none                            */
    size_t jobs;         /* transfers with it that are not done                 */
    bool far;            /* on another host                                     */
    MPI_Request beat;
    MPI_Request last; /* goodbye or failure                                     */
} pst_mpi_peer;

typedef enum pst_mpi_state {
    PST__MPI_OPENING,
    PST__MPI_OPEN,
    PST__MPI_CLOSING,
    PST__MPI_ENDED
} pst_mpi_state;

struct pst_mpi {
    pst_env env;
    pst_transport transport;
    pst_mpi_settings settings;
    pst_monitor lock;
    pst_thread thread;
    pst_mpi_state state;
    pst_status opened;
    pst_error *open_error; /* of the caller of open                             */
    bool started;          /* MPI was started here                              */
    bool funneled;
    bool dozes;         /* its thread sleeps for long, or is alone in calling MPI */
    bool waiter_looked; /* since its thread last did                            */
    bool abort_wanted;
    int abort_status;

    MPI_Comm data;
    MPI_Comm control;
    pst_mpi_peer *peers;

    /* transport_mpi_transfers.c */
    void *blocks; /* memory of jobs, a list                                     */
    pst_mpi_job *free_jobs;
    pst_mpi_job *to_post;
    pst_mpi_job **to_post_end;
    size_t active;
    size_t room;
    MPI_Request *requests; /* [room], as the next three                         */
    pst_mpi_request *owners;
    MPI_Status *statuses;
    int *indices;

    /* transport_mpi_control.c */
    pst_mpi_note inbox;
    pst_mpi_note beat;
    pst_mpi_note last;
    MPI_Request inbox_request;
    uint64_t control_ns; /* last look at the inbox                              */
    uint64_t tick_ns;
    uint64_t beat_ns;
    bool said_goodbye;

    /* transport_mpi_watch.c */
    uint64_t look_ns;
    int64_t launcher; /* parent of this process                             */
    bool orphaned;    /* it is gone, and MPI_Abort has nobody to turn to        */

    bool failed;
    bool silent; /* the failure is dealt with: no calls of MPI any more         */
    bool told;
    bool abandoned; /* MPI may know memory of jobs yet                          */
    uint64_t failed_ns;
    char failure[PST__MPI_TEXT];
};

/* ---- transport_mpi_transfers.c ---- */

/* Queue it, and post it where this thread may. A failed transport ends it at once. */
void pst__mpi_start(pst_mpi *mpi, pst_mpi_job given);
/* Post what waits. */
void pst__mpi_post(pst_mpi *mpi);
/* See what MPI has done. True: something. */
bool pst__mpi_test(pst_mpi *mpi);
bool pst__mpi_has_jobs(const pst_mpi *mpi);
/* After a failure: ask MPI to let go of all buffers... */
void pst__mpi_cancel(pst_mpi *mpi);
/* ... and end what it would not let go. */
void pst__mpi_abandon(pst_mpi *mpi);
void pst__mpi_free_jobs(pst_mpi *mpi);

/* ---- transport_mpi_control.c ---- */

/* The first text counts. */
void pst__mpi_fail(pst_mpi *mpi, const char *format, ...) PST_PRINTF(2, 3);
/* The same where this process has found that `process` is gone; the log has it too. */
void pst__mpi_lose(pst_mpi *mpi, int process, const char *format, ...) PST_PRINTF(3, 4);
/* How long this one leaves that to those before it. */
uint64_t pst__mpi_turn_ns(const pst_mpi *mpi);
/* What MPI says of `code`, into text; returns it. */
char *pst__mpi_error_text(int code, char text[MPI_MAX_ERROR_STRING]);
void pst__mpi_listen(pst_mpi *mpi);
void pst__mpi_stop_listening(pst_mpi *mpi);
/* Read what has come. */
void pst__mpi_read_notes(pst_mpi *mpi, uint64_t now);
/* Signs of life, given and looked for; what a failure still needs. */
void pst__mpi_tick(pst_mpi *mpi, uint64_t now);
void pst__mpi_say_goodbye(pst_mpi *mpi);
/* All have said it, and what was said here is out. */
bool pst__mpi_may_part(pst_mpi *mpi);

/* ---- transport_mpi_watch.c ---- */

/* Processes with the same text can see each other; "": nobody can. */
void pst__mpi_machine(char text[PST__MPI_MACHINE]);
/* From now on, as peers[].pid say. */
void pst__mpi_watch(pst_mpi *mpi);
void pst__mpi_unwatch(pst_mpi *mpi);
/* The launcher is gone. */
bool pst__mpi_is_orphaned(pst_mpi *mpi);
/* Peers or the launcher that have ended fail the transport. */
void pst__mpi_look_for_ended(pst_mpi *mpi, uint64_t now);

/* ---- transport_mpi_open.c ---- */

pst_status pst__mpi_read_settings(pst_mpi_settings *out, pst_error *err);
/* Start MPI or find it started, and meet the others. */
pst_status pst__mpi_meet(pst_mpi *mpi, pst_error *err);
void pst__mpi_part(pst_mpi *mpi);

#endif
