/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h - items through a chain of stages, forward only.
 *
 * The first stage is the source, which makes items; the last is the sink, which takes
 * them; those between change them, or drop them. Each stage has a pinned worker thread
 * of its own, or several that share its items (`replicas`), or shares the worker of the
 * stage before it (`with_previous`). Between workers stand rings of bounded capacity,
 * so a slow stage holds back the faster ones, up to the source. Items keep the source's
 * order: after a replicated stage they are put in order again, without a buffer of
 * their own, since each replica keeps the order of what it was given.
 *
 *     source --> stage 1, replica 0 --> stage 2 --> sink
 *           \--> stage 1, replica 1 --/
 *
 * An item is a pointer of the callbacks' own, or a buffer that the runtime owns
 * (`item_bytes`), which goes back from the sink to the source.
 *
 * For training, with its two directions, see pipeline.h.
 *
 * Threads: calls on one stream come from one thread at a time, apart from
 * pst_stream_cancel(). Workers have all signals blocked.
 */
#ifndef PENSTOCK_STREAM_H
#define PENSTOCK_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/pipeline.h>

PST_BEGIN_DECLS

/* One item in the hands of a callback. */
typedef struct pst_stream_item {
    void *data;      /* the item. A stage may put another pointer in its place, but not
                        where the runtime owns the buffers. To a source: NULL, or an
                        empty buffer of `item_bytes`, with an older item in it        */
    uint64_t number; /* of the item in the source's order, from 0; an `any_order` stage
                        numbers anew                                                  */
    int replica;     /* which of the stage's replicas this is, from 0                 */
    int drop;        /* set to 1: the item goes no further. Also in a source          */
    int end;         /* a source sets it to 1: there is no item, nor will there be    */
} pst_stream_item;

/*
 * Do a stage's part. May take as long as it likes, and wait for the outside world (but
 * see watchdog_seconds). Other than PST_OK ends the run; `err` says why.
 */
typedef pst_status (*pst_stream_function)(void *self, pst_stream_item *item,
                                          pst_error *err);

/* Zeroed means the defaults, `run` apart. */
typedef struct pst_stream_stage {
    const char *name; /* for messages; NULL: its number only                          */
    void *self;       /* handed to `run`; replicas share it                           */
    pst_stream_function run; /* called by one thread at a time for each replica       */
    int replicas;            /* workers that share the items; 0: 1. Neighbours have as
                                many or one of them has 1; source and sink have 1     */
    int with_previous;       /* 1: run by the worker of the stage before, right after
                                it, with as many replicas; no hand-over then          */
    int any_order;           /* 1: where the stage before has replicas and this has not,
                                take items as they come                               */
} pst_stream_stage;

/* Zeroed means the defaults. */
typedef struct pst_stream_options {
    pst_bind bind;
    const char *bind_cpus; /* as in pst_pipeline_options, as the two below are */
    const char *topology_synthetic;
    const char *topology_xml;
    double watchdog_seconds; /* nothing moved for so long: PST_ETIMEOUT. 0: 60; below
                                0: never                                              */
    int capacity;      /* most items that wait from one worker to one other; 0: 1,024 */
    size_t item_bytes; /* not 0: the runtime owns the items, buffers of so many bytes
                          at a multiple of 64, on the NUMA node of the source         */
    int buffer_count;  /* of them, so most items between source and sink; 0: 4 for
                          each worker. Not without item_bytes                         */
    /* Called for an item's pointer that has not gone through the sink: when a stage
     * drops it, by that worker; when a run ends early, by the caller of
     * pst_stream_run(). Not for NULL, and not for the runtime's own buffers. NULL:
     * leave them. */
    void (*discard)(void *user, void *data);
    void *discard_user;
} pst_stream_options;

typedef struct pst_stream pst_stream;

/*
 * Start the workers of `stage_count` (2 or more) stages and allocate all that a run
 * needs: a run itself allocates nothing.
 * Owns:   *out is the caller's. `stages`[] and `options` are copied; what `name`,
 * `self` and `discard_user` point to must outlive the stream. Errors: PST_EINVAL (the
 * text gives the rule), PST_ENOMEM, PST_ESYSTEM (a thread could not be started). A
 * refused binding is one warning in the log.
 */
PST_API pst_status pst_stream_create(const pst_env *env, const pst_stream_stage *stages,
                                     int stage_count, const pst_stream_options *options,
                                     pst_stream **out, pst_error *err);

/*
 * Run until the source has ended and the sink has taken everything. *taken (NULL
 * allowed) is how many items went into the sink. May be called again.
 * Errors: a callback's own status, with a text that names stage, replica and item and
 *         carries the callback's sentence; PST_ECALLBACK after pst_stream_cancel();
 *         PST_ETIMEOUT, whose text says where each worker is. The stream may be used
 *         again, unless a callback never returned: then every later run is refused.
 */
PST_API pst_status pst_stream_run(pst_stream *stream, uint64_t *taken, pst_error *err);

/* End a run from any thread or signal handler: it returns PST_ECALLBACK soon. */
PST_API void pst_stream_cancel(pst_stream *stream);

/* How many worker threads there are, and where one of them (from 0, in the order of the
 * stages) is. Of memory_bytes: the buffers, which are the source's. */
PST_API int pst_stream_worker_count(const pst_stream *stream);
PST_API void pst_stream_worker(const pst_stream *stream, int worker,
                               pst_worker_info *info);

/* For people: what each worker does and which item it is at. Returns the length that
 * the whole text has (as snprintf). Any thread. */
PST_API size_t pst_stream_dump(const pst_stream *stream, char *text, size_t size);

/* Ends and joins the workers. NULL allowed. Not during a run. */
PST_API void pst_stream_destroy(pst_stream *stream);

PST_END_DECLS

#endif
