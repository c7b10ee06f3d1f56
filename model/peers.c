/* SPDX-License-Identifier: BSD-3-Clause */
/* peers.c - agreement by gathering what each process has to say. */
#include "model/peers.h"

#include <stdio.h>
#include <string.h>

#include "model/folder.h"

enum { MARK_SIZE = 64, PATH_SIZE = 4096 + MARK_SIZE };

int pst__peers_count(const pst_transport *transport)
{
    return transport != NULL ? transport->processes : 1;
}

int pst__peers_own(const pst_transport *transport)
{
    return transport != NULL ? transport->process : 0;
}

pst_status pst__peers_gather(pst_transport *transport, const void *own, size_t bytes,
                             void *all, pst_error *err)
{
    if (transport != NULL)
        return pst_transport_gather(transport, own, bytes, all, err);
    memcpy(all, own, bytes);
    return PST_OK;
}

pst_status pst__peers_broadcast(pst_transport *transport, int from, void *data,
                                size_t bytes, pst_error *err)
{
    return transport != NULL
               ? pst_transport_broadcast(transport, from, data, bytes, err)
               : PST_OK;
}

pst_status pst__peers_agree(pst_transport *transport, const pst_error *own,
                            pst_error *err)
{
    if (transport != NULL)
        return pst_transport_agree(transport, own, err);
    return own->status == PST_OK ? PST_OK
                                 : pst_error_set(err, own->status, "%s", own->text);
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
