/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.c - sends and receives in lists until their counterpart comes. */
#include "tests/stages/loopback.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/thread.h"

enum { TAGS = 32768, NAME_SIZE = 64 }; /* as many tags as MPI promises           */

/* A transfer that waits for its counterpart. */
typedef struct waiting {
    struct waiting *next;
    pst_transfer *transfer;
    void *data; /* of a send: only read                                        */
    size_t bytes;
    uint32_t tag;
    bool is_send;
} waiting;

typedef struct end {
    pst_transport transport;
    loopback *own;
    char name[NAME_SIZE];
} end;

struct loopback {
    pst_monitor monitor; /* guards what follows                                 */
    waiting **pairs;     /* [from * processes + to]: the oldest first           */
    const char *failure; /* NULL: none                                          */
    char text[sizeof((pst_error *)0)->text];
    int processes; /* constant, as are the ends                            */
    end *ends;
};

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("loopback: no memory\n", stderr);
        abort();
    }
    return memory;
}

/* ---- what has been matched, outside the monitor ---------------------------------- */

static void end_failed(pst_transfer *transfer)
{
    transfer->failed = 1;
    transfer->done(transfer);
}

static void carry_out(waiting *send, waiting *receive)
{
    memcpy(receive->transfer->header, send->transfer->header, PST_TRANSFER_HEADER);
    if (send->bytes > 0)
        memcpy(receive->data, send->data, send->bytes);
    receive->transfer->bytes = send->bytes;
    receive->transfer->failed = send->transfer->failed = 0;
    receive->transfer->done(receive->transfer);
    send->transfer->done(send->transfer);
    free(send);
    free(receive);
}

/* ---- the lists, inside ------------------------------------------------------------
 */

/* The oldest of the other kind with this tag, taken out; NULL: `own` is put in. */
static waiting *meet(waiting **list, waiting *own)
{
    waiting **at = list;
    for (; *at != NULL; at = &(*at)->next) {
        waiting *other = *at;
        if (other->tag == own->tag && other->is_send != own->is_send) {
            *at = other->next;
            return other;
        }
    }
    own->next = NULL;
    *at = own;
    return NULL;
}

/* All that waits, as one list. */
static waiting *take_all(loopback *own)
{
    waiting *all = NULL;
    for (int i = 0; i < own->processes * own->processes; i++)
        while (own->pairs[i] != NULL) {
            waiting *one = own->pairs[i];
            own->pairs[i] = one->next;
            one->next = all;
            all = one;
        }
    return all;
}

static void fail_all(loopback *own, const char *text)
{
    pst__monitor_enter(&own->monitor);
    if (own->failure == NULL) {
        snprintf(own->text, sizeof own->text, "%s", text);
        own->failure = own->text;
    }
    waiting *all = take_all(own);
    pst__monitor_leave(&own->monitor);
    while (all != NULL) {
        waiting *one = all;
        all = one->next;
        end_failed(one->transfer);
        free(one);
    }
}

static void start(loopback *own, int from, int to, waiting given)
{
    waiting *one = must(malloc(sizeof *one));
    *one = given;
    pst__monitor_enter(&own->monitor);
    const bool failed = own->failure != NULL;
    waiting *other = failed ? NULL : meet(&own->pairs[from * own->processes + to], one);
    pst__monitor_leave(&own->monitor);
    if (failed) {
        end_failed(given.transfer);
        free(one);
    }
    if (other == NULL)
        return;
    waiting *send = one->is_send ? one : other, *receive = one->is_send ? other : one;
    if (send->bytes <= receive->bytes) {
        carry_out(send, receive);
        return;
    }
    fail_all(own, "loopback: a message is larger than its receiver has room for");
    end_failed(send->transfer);
    end_failed(receive->transfer);
    free(send);
    free(receive);
}

/* ---- the table ---------------------------------------------------------------------
 */

static const char *where(void *self, int process)
{
    const end *mine = self;
    return mine->own->ends[process].name;
}

static void send(void *self, int to, uint32_t tag, const void *data, size_t bytes,
                 size_t most, pst_transfer *transfer)
{
    end *mine = self;
    (void)most;
    start(mine->own, mine->transport.process, to,
          (waiting){.transfer = transfer,
                    .data = (void *)data,
                    .bytes = bytes,
                    .tag = tag,
                    .is_send = true});
}

static void receive(void *self, int from, uint32_t tag, void *data, size_t most,
                    pst_transfer *transfer)
{
    end *mine = self;
    start(mine->own, from, mine->transport.process,
          (waiting){.transfer = transfer, .data = data, .bytes = most, .tag = tag});
}

static void progress(void *self)
{
    (void)self;
}

static void fail(void *self, const char *text)
{
    const end *mine = self;
    fail_all(mine->own, text);
}

static const char *failure(void *self)
{
    loopback *own = ((end *)self)->own;
    pst__monitor_enter(&own->monitor);
    const char *text = own->failure;
    pst__monitor_leave(&own->monitor);
    return text;
}

/* ---- making ------------------------------------------------------------------------
 */

loopback *loopback_create(int processes)
{
    const size_t count = (size_t)processes;
    loopback *own = must(calloc(1, sizeof *own));
    own->processes = processes;
    own->pairs = must(calloc(count * count, sizeof *own->pairs));
    own->ends = must(calloc(count, sizeof *own->ends));
    pst__monitor_init(&own->monitor);
    for (int i = 0; i < processes; i++) {
        end *one = &own->ends[i];
        one->own = own;
        snprintf(one->name, sizeof one->name, "process %d on node-%d", i, i);
        one->transport = (pst_transport){.self = one,
                                         .process = i,
                                         .processes = processes,
                                         .tags = TAGS,
                                         .where = where,
                                         .send = send,
                                         .receive = receive,
                                         .progress = progress,
                                         .fail = fail,
                                         .failure = failure};
    }
    return own;
}

pst_transport *loopback_end(loopback *own, int process)
{
    return &own->ends[process].transport;
}

void loopback_destroy(loopback *own)
{
    if (own == NULL)
        return;
    fail_all(own, "loopback: it was taken down");
    pst__monitor_fini(&own->monitor);
    free(own->pairs);
    free(own->ends);
    free(own);
}
