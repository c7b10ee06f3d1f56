/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - how processes that run one pipeline together reach each other.
 *
 * A table of functions, filled in by whoever knows a network: libpenstock-mpi has one
 * over MPI (mpi.h). All processes make the same pipelines in the same order, each with
 * its own end of the transport, and each runs the ranks that are placed on it
 * (pipeline.h).
 *
 * A transfer is one message of any size. Of those from one process to one other with
 * one tag, the n-th sent goes to the n-th receive. A transfer and its buffer belong to
 * the transport from the call until its `done` is called, once, from inside any call of
 * the transport by any thread, or from a thread of the transport's own.
 *
 * Failure: once a process fails (`fail`), dies or is cut off, every transfer on every
 * process ends with `failed` set, those that are still to come at once. Nothing hangs.
 *
 * Threads: every function may be called by any thread at any time, apart from `done`
 * callbacks, which may call none of them and must be brief.
 */
#ifndef PENSTOCK_TRANSPORT_H
#define PENSTOCK_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/error.h>

PST_BEGIN_DECLS

/* Bytes that go in front of each message, for whoever sends it. */
enum { PST_TRANSFER_HEADER = 48 };

/* Tags at the end of a transport's that the calls below use. */
enum { PST_TRANSPORT_OWN_TAGS = 2 };

typedef struct pst_transfer pst_transfer;

struct pst_transfer {
    void (*done)(pst_transfer *transfer); /* given by the caller                  */
    void *user;                           /* the caller's                         */
    unsigned char header[PST_TRANSFER_HEADER]; /* send: given; receive: what came */
    size_t bytes; /* receive: of the message that came                         */
    int failed;   /* 1: it was not carried out; see `failure`                  */
    void *own;    /* the transport's                                           */
};

typedef struct pst_transport {
    void *self;
    int process; /* this one, from 0                                          */
    int processes;
    uint32_t tags;      /* tags are 0 .. tags - 1                                */
    uint32_t tags_used; /* tags from 0 that pipelines have been given            */
    int lost; /* 1 + a process that this one has found gone; 0: none. Read after a
               * failure.                                                        */

    /* "process 1 on node-b", constant; process is 0 .. processes - 1. */
    const char *(*where)(void *self, int process);

    /*
     * Send header and `bytes` bytes; `most` is what the receiver has room for. Any
     * size_t. Returns at once.
     */
    void (*send)(void *self, int to, uint32_t tag, const void *data, size_t bytes,
                 size_t most, pst_transfer *transfer);
    /* Be ready for a message of at most `most` bytes. Returns at once. */
    void (*receive)(void *self, int from, uint32_t tag, void *data, size_t most,
                    pst_transfer *transfer);
    /* Move transfers on, if that is for this thread to do: for one that waits. Returns
     * at once. */
    void (*progress)(void *self);

    /* End it on all processes, with a sentence that all of them will give as the
     * reason. The first counts. */
    void (*fail)(void *self, const char *text);
    /* The reason, NULL while there is none; constant from then on. */
    const char *(*failure)(void *self);
} pst_transport;

/*
 * Every process's `bytes` bytes into all[processes][bytes], in the order of processes.
 * Called by all processes, in the same order of such calls; blocks.
 * Errors: PST_EPEER with the transport's reason; PST_ENOMEM, which fails the transport.
 */
PST_API pst_status pst_transport_gather(pst_transport *transport, const void *own,
                                        size_t bytes, void *all, pst_error *err);

/* PST_OK where `own` of every process is that; else the error of the lowest process
 * that has another, with its place, to all: "process 1 on node-b: ...". As above. */
PST_API pst_status pst_transport_agree(pst_transport *transport, const pst_error *own,
                                       pst_error *err);

/* `data` of process `from` into data of all. As above. */
PST_API pst_status pst_transport_broadcast(pst_transport *transport, int from,
                                           void *data, size_t bytes, pst_error *err);

PST_END_DECLS

#endif
