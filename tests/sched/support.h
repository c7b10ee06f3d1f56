/* SPDX-License-Identifier: BSD-3-Clause */
/* support.h - what the tests of sched/ share: lists from text, data files, folders. */
#ifndef PST_TEST_SCHED_SUPPORT_H
#define PST_TEST_SCHED_SUPPORT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include <penstock/schedule.h>
#include <penstock/schedule_csv.h>

enum { PATH_SIZE = 1024, ROW_SIZE = 4096 };

/* Status, text and place, each exact. */
static inline void assert_error(const pst_error *err, pst_status status,
                                const char *file, int line, const char *text)
{
    ck_assert_str_eq(err->text, text);
    ck_assert_str_eq(pst_status_text(err->status), pst_status_text(status));
    ck_assert_str_eq(err->file, file);
    ck_assert_int_eq(err->line, line);
}

static inline char *data_path(const char *name, char path[PATH_SIZE])
{
    const char *srcdir = getenv("srcdir");
    int length = snprintf(path, PATH_SIZE, "%s/tests/reference/%s",
                          srcdir != NULL ? srcdir : ".", name);
    ck_assert_int_lt(length, PATH_SIZE);
    return path;
}

/* A list from lines, without asking whether it is valid; messages name t.csv. */
static inline pst_schedule *parse(const char *text)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), NULL, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s:%d: %s", err.file, err.line, err.text);
    return schedule;
}

static inline pst_schedule *read_data(const char *name)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    char path[PATH_SIZE];
    pst_schedule_read_csv(NULL, data_path(name, path), NULL, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s:%d: %s", err.file, err.line, err.text);
    return schedule;
}

/* "0F0 (0F1 0B0" : the actions of a row, the first of a pair behind a bracket. */
static inline char *row_text(const pst_schedule *schedule, int rank,
                             char text[ROW_SIZE])
{
    size_t count, used = 0;
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        char action[32];
        pst_action_text(row[i], action, sizeof action);
        used += (size_t)snprintf(text + used, ROW_SIZE - used, "%s%s%s",
                                 i > 0 ? " " : "", row[i].paired ? "(" : "", action);
        ck_assert_uint_lt(used, ROW_SIZE);
    }
    return text;
}

/* The same shape, and action by action the same rows. */
static inline void assert_same_list(const pst_schedule *got, const pst_schedule *wanted)
{
    char got_row[ROW_SIZE], wanted_row[ROW_SIZE];
    ck_assert_int_eq(pst_schedule_ranks(got), pst_schedule_ranks(wanted));
    ck_assert_int_eq(pst_schedule_stages(got), pst_schedule_stages(wanted));
    ck_assert_int_eq(pst_schedule_microbatches(got), pst_schedule_microbatches(wanted));
    for (int rank = 0; rank < pst_schedule_ranks(wanted); rank++)
        ck_assert_str_eq(row_text(got, rank, got_row),
                         row_text(wanted, rank, wanted_row));
}

/* ---- a folder of one's own: made before and removed after each test ----- */

static char test_folder[PATH_SIZE / 2];

static inline void make_folder(void)
{
    const char *place = getenv("TMPDIR");
    snprintf(test_folder, sizeof test_folder, "%s/penstock-XXXXXX",
             place != NULL && place[0] != 0 ? place : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(test_folder));
}

static inline char *in_folder(const char *name, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s", test_folder, name);
    return path;
}

/* How many files are in the folder; where `removing`, they then are not. */
static inline int walk_folder(int removing)
{
    char path[PATH_SIZE];
    int count = 0;
    DIR *folder = opendir(test_folder);
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (removing)
            remove(in_folder(entry->d_name, path));
    }
    closedir(folder);
    return count;
}

static inline void remove_folder(void)
{
    walk_folder(1);
    ck_assert_int_eq(rmdir(test_folder), 0);
}

static inline void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void assert_file(const char *path, const char *text)
{
    char found[ROW_SIZE];
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t bytes = fread(found, 1, sizeof found - 1, file);
    found[bytes] = 0;
    fclose(file);
    ck_assert_str_eq(found, text);
}

/* ---- an allocator that counts, and can be told to fail ------------------ */

typedef struct counting {
    int allocated, released;
    int fail_at; /* the call, from 1, that returns NULL; 0: none                */
} counting;

static inline void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    counting *c = user;
    void *memory;
    if (c->fail_at != 0 && c->allocated + 1 == c->fail_at) {
        c->fail_at = -1;
        return NULL;
    }
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    c->allocated++;
    return memory;
}

static inline void count_release(void *user, void *memory)
{
    counting *c = user;
    ck_assert_ptr_nonnull(memory);
    c->released++;
    free(memory);
}

static inline pst_env counting_env(counting *c)
{
    return (pst_env){.allocate = count_allocate, .release = count_release, .user = c};
}

#endif
