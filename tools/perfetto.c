/* SPDX-License-Identifier: BSD-3-Clause */
/* perfetto.c - scenes as a trace in JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <penstock/file.h>

#include "tools/perfetto.h"

/* A JSON string, quotes and all; what does not fit is cut. */
static const char *quoted(const char *text, char *out, size_t size)
{
    size_t used = 0;
    out[used++] = '"';
    for (; *text != 0 && used + 8 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            out[used++] = '\\';
        if (c < 0x20)
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", c);
        else
            out[used++] = (char)c;
    }
    out[used++] = '"';
    out[used] = 0;
    return out;
}

/* Whole nanoseconds, so that what was disjoint stays so. */
static int64_t nanoseconds(double milliseconds)
{
    return (int64_t)llround(milliseconds * 1e6);
}

static void write_names(pst_file_writer *w, const scene *s, int process)
{
    char name[512], room[160];
    pst_file_printf(w, NULL,
                    "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, "
                    "\"args\": {\"name\": %s}},\n",
                    process, quoted(s->title, name, sizeof name));
    for (int rank = 0; rank < s->ranks; rank++) {
        const scene_row *row = &s->rows[rank];
        snprintf(room, sizeof room, "%s%s%s%s", row->label, row->place[0] ? " (" : "",
                 row->place, row->place[0] ? ")" : "");
        pst_file_printf(w, NULL,
                        "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, "
                        "\"tid\": %d, \"args\": {\"name\": %s}},\n"
                        "{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %d, "
                        "\"tid\": %d, \"args\": {\"sort_index\": %d}},\n",
                        process, rank, quoted(room, name, sizeof name), process, rank,
                        rank);
    }
}

static void write_box(pst_file_writer *w, const scene_box *box, int process, int rank)
{
    char action[32];
    int64_t start = nanoseconds(box->start), length = nanoseconds(box->end) - start;
    pst_file_printf(
        w, NULL,
        "{\"ph\": \"X\", \"name\": \"%s\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, "
        "\"ts\": %" PRId64 ".%03d, \"dur\": %" PRId64
        ".%03d, \"args\": {\"stage\": %u, "
        "\"microbatch\": %" PRIu32 ", \"cpu\": %d}},\n",
        pst_action_text(box->action, action, sizeof action),
        pst_op_describe(box->action.op)->name, process, rank, start / 1000,
        (int)(start % 1000), length / 1000, (int)(length % 1000), box->action.stage,
        box->action.microbatch, box->cpu);
}

pst_status perfetto_write(const scene *const *scenes, int count, const char *path,
                          pst_error *err)
{
    pst_file_writer *w;
    pst_status status = pst_file_create(NULL, path, &w, err);
    if (status != PST_OK)
        return status;
    pst_file_printf(w, NULL, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    for (int i = 0; i < count; i++) {
        write_names(w, scenes[i], i);
        for (int rank = 0; rank < scenes[i]->ranks; rank++)
            for (size_t k = 0; k < scenes[i]->rows[rank].count; k++)
                write_box(w, &scenes[i]->rows[rank].boxes[k], i, rank);
    }
    pst_file_printf(
        w, NULL,
        "{\"ph\": \"M\", \"name\": \"trace_end\", \"pid\": 0, \"args\": {}}\n"
        "]}\n");
    return pst_file_commit(w, err); /* the first failed write is kept until here */
}
