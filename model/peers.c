/* SPDX-License-Identifier: BSD-3-Clause */
/* peers.c - agreement by gathering what each process has to say. */
#include "model/peers.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "model/folder.h"

enum { MARK_SIZE = 64, PATH_SIZE = 4096 + MARK_SIZE };

/* What a process says of itself. */
typedef struct verdict {
    int32_t status;
    char text[sizeof((pst_error *)0)->text];
} verdict;

int pst__peers_count(const pst_transport *transport)
{
    return transport != NULL ? transport->processes : 1;
}

int pst__peers_own(const pst_transport *transport)
{
    return transport != NULL ? transport->process : 0;
}

/* Where this process alone may have failed. */
static pst_status let_all_know(pst_transport *t, pst_status status,
                               const pst_error *own, pst_error *err)
{
    if (status == PST_OK)
        return PST_OK;
    t->fail(t->self, own->text);
    return pst_error_set(err, status, "%s", own->text);
}

pst_status pst__peers_gather(pst_transport *transport, const void *own, size_t bytes,
                             void *all, pst_error *err)
{
    pst_error why = PST_ERROR_INIT;
    if (transport == NULL) {
        memcpy(all, own, bytes);
        return PST_OK;
    }
    const pst_status status = pst_transport_gather(transport, own, bytes, all, &why);
    return let_all_know(transport, status, &why, err);
}

pst_status pst__peers_broadcast(pst_transport *transport, int from, void *data,
                                size_t bytes, pst_error *err)
{
    pst_error why = PST_ERROR_INIT;
    if (transport == NULL)
        return PST_OK;
    const pst_status status =
        pst_transport_broadcast(transport, from, data, bytes, &why);
    return let_all_know(transport, status, &why, err);
}

static pst_status first_of(const pst_transport *t, const verdict *all, pst_error *err)
{
    for (int i = 0; i < t->processes; i++)
        if (all[i].status != PST_OK)
            return pst_error_set(err, (pst_status)all[i].status, "%s: %s",
                                 t->where(t->self, i), all[i].text);
    return PST_OK;
}

pst_status pst__peers_agree(pst_transport *transport, const pst_error *own,
                            pst_error *err)
{
    const size_t processes = (size_t)pst__peers_count(transport);
    if (transport == NULL)
        return own->status == PST_OK ? PST_OK
                                     : pst_error_set(err, own->status, "%s", own->text);
    verdict mine = {.status = (int32_t)own->status};
    memcpy(mine.text, own->text, sizeof mine.text);
    verdict *all = pst_allocate_array(NULL, processes, sizeof *all);
    if (all == NULL) {
        const pst_error why = {.status = PST_ENOMEM, .text = "no memory for messages"};
        return let_all_know(transport, why.status, &why, err);
    }
    pst_status status = pst__peers_gather(transport, &mine, sizeof mine, all, err);
    if (status == PST_OK)
        status = first_of(transport, all, err);
    pst_release(NULL, all);
    return status;
}

/* ---- whose folder is whose ------------------------------------------------------- */

static int lowest_seen(const pst_transport *t, const char *dir,
                       char (*marks)[MARK_SIZE])
{
    char path[PATH_SIZE];
    for (int i = 0; i < t->process; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir, marks[i]) < PATH_SIZE &&
            pst__folder_has(path))
            return i;
    return t->process;
}

pst_status pst__peers_home(const pst_env *env, pst_transport *transport,
                           const char *dir, int *home, pst_error *err)
{
    if (transport == NULL) {
        *home = 0;
        return PST_OK;
    }
    pst_error own = PST_ERROR_INIT;
    char start[MARK_SIZE], mark[MARK_SIZE] = "";
    const size_t processes = (size_t)transport->processes;
    char(*marks)[MARK_SIZE] = pst_allocate_array(env, processes, sizeof *marks);
    snprintf(start, sizeof start, "here-%d-", transport->process);
    if (marks == NULL)
        pst_error_no_memory(&own, "names of files", processes * sizeof *marks);
    else
        pst__folder_mark(dir, start, mark, sizeof mark, &own);
    pst_status status = pst__peers_agree(transport, &own, err);
    if (status == PST_OK)
        status = pst__peers_gather(transport, mark, sizeof mark, marks, err);
    const int found = status == PST_OK ? lowest_seen(transport, dir, marks) : 0;
    if (status == PST_OK) /* before all have looked no file may go */
        status = pst__peers_agree(transport, &own, err);
    if (mark[0] != '\0')
        pst__folder_remove_file(dir, mark, NULL);
    pst_release(env, marks);
    if (status == PST_OK)
        *home = found;
    return status;
}
