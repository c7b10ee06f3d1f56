/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_file.c - files written whole or not at all, and read whole.
 *
 * Linked with --wrap for the calls in os.h, so that a disk can be full and a signal
 * can come where a test wants it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/file.h>

#include "sched/os.h"
#include "tests/sched/support.h"
#include "tests/suite.h"

/* ---- system calls that fail on demand ----------------------------------- */

static struct {
    int write_error, read_error, fsync_error, folder_fsync_error, close_error;
    int rename_error, create_error;
    int interrupts;    /* so many writes and reads end in EINTR first          */
    size_t write_most; /* bytes that one write takes; 0: all                   */
    int write_nothing; /* a write moves 0 bytes                                */
    int folder;        /* descriptor of the folder that was opened, or 0       */
} os;

int __real_pst__os_create(const char *path, unsigned mode);
int __real_pst__os_open_folder(const char *path);
long __real_pst__os_write(int file, const void *data, size_t bytes);
long __real_pst__os_read(int file, void *data, size_t bytes);
int __real_pst__os_fsync(int file);
int __real_pst__os_close(int file);
int __real_pst__os_rename(const char *from, const char *to);
int __wrap_pst__os_create(const char *path, unsigned mode);
int __wrap_pst__os_open_folder(const char *path);
long __wrap_pst__os_write(int file, const void *data, size_t bytes);
long __wrap_pst__os_read(int file, void *data, size_t bytes);
int __wrap_pst__os_fsync(int file);
int __wrap_pst__os_close(int file);
int __wrap_pst__os_rename(const char *from, const char *to);

static int fail_with(int error)
{
    errno = error;
    return -1;
}

int __wrap_pst__os_create(const char *path, unsigned mode)
{
    return os.create_error ? fail_with(os.create_error)
                           : __real_pst__os_create(path, mode);
}

int __wrap_pst__os_open_folder(const char *path)
{
    return os.folder = __real_pst__os_open_folder(path);
}

long __wrap_pst__os_write(int file, const void *data, size_t bytes)
{
    if (os.interrupts > 0 && os.interrupts--)
        return fail_with(EINTR);
    if (os.write_error)
        return fail_with(os.write_error);
    if (os.write_nothing)
        return 0;
    if (os.write_most > 0 && bytes > os.write_most)
        bytes = os.write_most;
    return __real_pst__os_write(file, data, bytes);
}

long __wrap_pst__os_read(int file, void *data, size_t bytes)
{
    if (os.interrupts > 0 && os.interrupts--)
        return fail_with(EINTR);
    return os.read_error ? fail_with(os.read_error)
                         : __real_pst__os_read(file, data, bytes);
}

int __wrap_pst__os_fsync(int file)
{
    int error =
        os.folder > 0 && file == os.folder ? os.folder_fsync_error : os.fsync_error;
    return error ? fail_with(error) : __real_pst__os_fsync(file);
}

int __wrap_pst__os_close(int file)
{
    int result = __real_pst__os_close(file);
    return os.close_error ? fail_with(os.close_error) : result;
}

int __wrap_pst__os_rename(const char *from, const char *to)
{
    return os.rename_error ? fail_with(os.rename_error)
                           : __real_pst__os_rename(from, to);
}

/* ---- helpers ------------------------------------------------------------ */

static char target[PATH_SIZE];

static void set_up(void)
{
    memset(&os, 0, sizeof os); /* with CK_FORK=no there is one for all */
    make_folder();
    in_folder("target", target);
}

static pst_file_writer *begin(const char *path)
{
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = NULL;
    pst_file_create(NULL, path, &writer, &err);
    ck_assert_msg(writer != NULL, "%s", err.text);
    return writer;
}

/* `path`: what strerror says of `error`. */
static void assert_system_error(const pst_error *err, const char *path, int error)
{
    char text[2 * PATH_SIZE];
    snprintf(text, sizeof text, "%s: %s", path, strerror(error));
    assert_error(err, PST_EIO, "", 0, text);
}

/* The old file is as it was, and nothing stands beside it. */
static void assert_untouched(void)
{
    assert_file(target, "old");
    ck_assert_int_eq(walk_folder(0), 1);
}

/* ---- writing ------------------------------------------------------------ */

START_TEST(commit_makes_the_file)
{
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = begin(target);
    ck_assert_int_eq(pst_file_write(writer, "one\n", 4, &err), PST_OK);
    ck_assert_int_eq(pst_file_printf(writer, &err, "%s %d\n", "two", 2), PST_OK);
    ck_assert_int_ne(access(target, F_OK), 0);
    ck_assert_int_eq(pst_file_commit(writer, &err), PST_OK);
    assert_file(target, "one\ntwo 2\n");
    ck_assert_int_eq(walk_folder(0), 1);
    ck_assert_int_eq((int)err.status, PST_OK);
}
END_TEST

START_TEST(commit_replaces_the_file)
{
    put_file(target, "old");
    pst_file_writer *writer = begin(target);
    pst_file_write(writer, "new", 3, NULL);
    assert_file(target, "old");
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    assert_file(target, "new");
    ck_assert_int_eq(walk_folder(0), 1);
}
END_TEST

START_TEST(an_empty_file)
{
    ck_assert_int_eq(pst_file_commit(begin(target), NULL), PST_OK);
    assert_file(target, "");
}
END_TEST

START_TEST(discard_leaves_the_old_file)
{
    put_file(target, "old");
    pst_file_writer *writer = begin(target);
    pst_file_write(writer, "new", 3, NULL);
    pst_file_discard(writer);
    assert_untouched();
    pst_file_discard(NULL);
}
END_TEST

START_TEST(discard_leaves_nothing)
{
    pst_file_discard(begin(target));
    ck_assert_int_eq(walk_folder(0), 0);
}
END_TEST

START_TEST(permissions_stay)
{
    struct stat about;
    put_file(target, "old");
    ck_assert_int_eq(chmod(target, 0600), 0);
    ck_assert_int_eq(pst_file_commit(begin(target), NULL), PST_OK);
    ck_assert_int_eq(stat(target, &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0600);
}
END_TEST

START_TEST(a_link_stays_a_link)
{
    char link[PATH_SIZE];
    struct stat about;
    put_file(target, "old");
    ck_assert_int_eq(symlink("target", in_folder("link", link)), 0);
    pst_file_writer *writer = begin(link);
    pst_file_write(writer, "new", 3, NULL);
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    ck_assert_int_eq(lstat(link, &about), 0);
    ck_assert(S_ISLNK(about.st_mode));
    assert_file(target, "new");
    ck_assert_int_eq(walk_folder(0), 2);
}
END_TEST

/* A name without a folder: the temporary file stands in the working folder. */
START_TEST(a_name_without_a_folder)
{
    ck_assert_int_eq(chdir(test_folder), 0);
    ck_assert_int_eq(pst_file_commit(begin("target"), NULL), PST_OK);
    ck_assert_int_eq(walk_folder(0), 1);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* Sizes around the buffer's, in pieces and whole. */
static const size_t sizes[] = {1, 65535, 65536, 65537, 200000};

START_TEST(large_files)
{
    char *data = pst_allocate(NULL, sizes[_i]), *found;
    size_t bytes;
    for (size_t i = 0; i < sizes[_i]; i++)
        data[i] = (char)('a' + i % 23);
    pst_file_writer *writer = begin(target);
    size_t half = sizes[_i] / 2;
    os.write_most = 1000;
    ck_assert_int_eq(pst_file_write(writer, data, half, NULL), PST_OK);
    ck_assert_int_eq(pst_file_write(writer, data + half, sizes[_i] - half, NULL),
                     PST_OK);
    ck_assert_int_eq(pst_file_write(writer, data, sizes[_i], NULL), PST_OK);
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    ck_assert_int_eq(pst_file_read(NULL, target, 0, &found, &bytes, NULL), PST_OK);
    ck_assert_uint_eq(bytes, 2 * sizes[_i]);
    ck_assert_int_eq(memcmp(found, data, sizes[_i]), 0);
    ck_assert_int_eq(memcmp(found + sizes[_i], data, sizes[_i]), 0);
    ck_assert_int_eq(found[bytes], 0);
    pst_release(NULL, found);
    pst_release(NULL, data);
}
END_TEST

START_TEST(printf_of_a_long_line)
{
    char *found;
    size_t bytes;
    pst_file_writer *writer = begin(target);
    ck_assert_int_eq(pst_file_printf(writer, NULL, "%9999d", 7), PST_OK);
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    ck_assert_int_eq(pst_file_read(NULL, target, 0, &found, &bytes, NULL), PST_OK);
    ck_assert_uint_eq(bytes, 9999);
    ck_assert_int_eq(found[9998], '7');
    pst_release(NULL, found);
}
END_TEST

START_TEST(interrupted_writes_go_on)
{
    pst_file_writer *writer = begin(target);
    pst_file_write(writer, "new", 3, NULL);
    os.interrupts = 3;
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    ck_assert_int_eq(os.interrupts, 0);
    assert_file(target, "new");
}
END_TEST

/* A name that a killed process left behind does not stop this one. */
START_TEST(a_stale_temporary_file)
{
    char stale[PATH_SIZE], name[64];
    snprintf(name, sizeof name, "target.%ld-0.tmp", (long)getpid());
    put_file(in_folder(name, stale), "stale");
    ck_assert_int_eq(pst_file_commit(begin(target), NULL), PST_OK);
    assert_file(stale, "stale");
    ck_assert_int_eq(walk_folder(0), 2);
}
END_TEST

START_TEST(two_writers_of_one_file)
{
    pst_file_writer *a = begin(target), *b = begin(target);
    pst_file_write(a, "a", 1, NULL);
    pst_file_write(b, "b", 1, NULL);
    ck_assert_int_eq(pst_file_commit(b, NULL), PST_OK);
    assert_file(target, "b");
    ck_assert_int_eq(pst_file_commit(a, NULL), PST_OK);
    assert_file(target, "a");
    ck_assert_int_eq(walk_folder(0), 1);
}
END_TEST

/* ---- writing that fails ------------------------------------------------- */

START_TEST(a_missing_folder)
{
    char path[PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = NULL;
    in_folder("none/target", path);
    ck_assert_int_eq(pst_file_create(NULL, path, &writer, &err), PST_EIO);
    assert_system_error(&err, path, ENOENT);
    ck_assert_ptr_null(writer);
}
END_TEST

START_TEST(a_folder_as_target)
{
    char text[2 * PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = NULL;
    ck_assert_int_eq(pst_file_create(NULL, test_folder, &writer, &err), PST_EIO);
    snprintf(text, sizeof text, "%s: is a folder; name a file", test_folder);
    assert_error(&err, PST_EIO, "", 0, text);
    ck_assert_ptr_null(writer);
}
END_TEST

START_TEST(a_folder_that_refuses)
{
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = NULL;
    os.create_error = EACCES;
    ck_assert_int_eq(pst_file_create(NULL, target, &writer, &err), PST_EIO);
    assert_system_error(&err, target, EACCES);
}
END_TEST

/* No end of taken names: give up. */
START_TEST(every_temporary_name_is_taken)
{
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = NULL;
    os.create_error = EEXIST;
    ck_assert_int_eq(pst_file_create(NULL, target, &writer, &err), PST_EIO);
    assert_system_error(&err, target, EEXIST);
}
END_TEST

START_TEST(a_full_disk)
{
    pst_error err = PST_ERROR_INIT, again = PST_ERROR_INIT, last = PST_ERROR_INIT;
    char *data = pst_allocate(NULL, 100000);
    put_file(target, "old");
    pst_file_writer *writer = begin(target);
    os.write_error = ENOSPC;
    ck_assert_int_eq(pst_file_write(writer, data, 100000, &err), PST_EIO);
    assert_system_error(&err, target, ENOSPC);
    /* The first error is kept, also when there is room again. */
    os.write_error = 0;
    ck_assert_int_eq(pst_file_write(writer, "x", 1, &again), PST_EIO);
    assert_system_error(&again, target, ENOSPC);
    ck_assert_int_eq(pst_file_printf(writer, NULL, "%d", 1), PST_EIO);
    ck_assert_int_eq(pst_file_commit(writer, &last), PST_EIO);
    assert_system_error(&last, target, ENOSPC);
    assert_untouched();
    pst_release(NULL, data);
}
END_TEST

START_TEST(a_full_buffer_on_a_full_disk)
{
    pst_error err = PST_ERROR_INIT;
    pst_status status = PST_OK;
    put_file(target, "old");
    pst_file_writer *writer = begin(target);
    os.write_error = ENOSPC;
    for (int i = 0; i < 100 && status == PST_OK; i++)
        status = pst_file_printf(writer, &err, "%1000d", i);
    ck_assert_int_eq(status, PST_EIO);
    pst_file_discard(writer);
    assert_system_error(&err, target, ENOSPC);
    assert_untouched();
}
END_TEST

/* What commit runs into; each leaves the old file and nothing beside it. */
static const struct {
    int *call;
    int error;
} commit_failures[] = {
    {&os.write_error, ENOSPC}, {&os.write_error, EIO},     {&os.fsync_error, EIO},
    {&os.close_error, EDQUOT}, {&os.rename_error, EACCES},
};

START_TEST(commit_fails)
{
    pst_error err = PST_ERROR_INIT;
    put_file(target, "old");
    pst_file_writer *writer = begin(target);
    pst_file_write(writer, "new", 3, NULL);
    *commit_failures[_i].call = commit_failures[_i].error;
    ck_assert_int_eq(pst_file_commit(writer, &err), PST_EIO);
    assert_system_error(&err, target, commit_failures[_i].error);
    assert_untouched();
}
END_TEST

START_TEST(a_write_of_nothing_is_a_full_disk)
{
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = begin(target);
    pst_file_write(writer, "new", 3, NULL);
    os.write_nothing = 1;
    ck_assert_int_eq(pst_file_commit(writer, &err), PST_EIO);
    assert_system_error(&err, target, ENOSPC);
    ck_assert_int_eq(walk_folder(0), 0);
}
END_TEST

START_TEST(an_error_that_is_set_stays)
{
    pst_error err = PST_ERROR_INIT;
    pst_error_set(&err, PST_EINVAL, "before");
    pst_file_writer *writer = begin(target);
    os.fsync_error = EIO;
    ck_assert_int_eq(pst_file_commit(writer, &err), PST_EIO);
    ck_assert_str_eq(err.text, "before");
}
END_TEST

START_TEST(a_folder_that_cannot_be_synced)
{
    static const struct {
        int error;
        pst_status status;
    } cases[] = {{EINVAL, PST_OK}, {ENOTSUP, PST_OK}, {EIO, PST_EIO}};
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = begin(target);
    pst_file_write(writer, "new", 3, NULL);
    os.folder_fsync_error = cases[_i].error;
    ck_assert_int_eq(pst_file_commit(writer, &err), cases[_i].status);
    if (cases[_i].status != PST_OK)
        assert_system_error(&err, test_folder, cases[_i].error);
    assert_file(target, "new");
    ck_assert_int_eq(walk_folder(0), 1);
}
END_TEST

/* ---- devices ------------------------------------------------------------ */

START_TEST(dev_full_is_written_directly)
{
    pst_error err = PST_ERROR_INIT;
    if (access("/dev/full", W_OK) != 0)
        return;
    pst_file_writer *writer = begin("/dev/full");
    ck_assert_int_eq(pst_file_write(writer, "new", 3, &err), PST_OK);
    ck_assert_int_eq(pst_file_commit(writer, &err), PST_EIO);
    assert_system_error(&err, "/dev/full", ENOSPC);
    ck_assert_int_eq(access("/dev/full", W_OK), 0);
}
END_TEST

START_TEST(dev_null)
{
    pst_file_writer *writer = begin("/dev/null");
    pst_file_write(writer, "new", 3, NULL);
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    writer = begin("/dev/null");
    pst_file_discard(writer);
    struct stat about;
    ck_assert_int_eq(stat("/dev/null", &about), 0);
    ck_assert(S_ISCHR(about.st_mode));
}
END_TEST

START_TEST(a_device_that_is_not_there)
{
    pst_error err = PST_ERROR_INIT;
    pst_file_writer *writer = NULL;
    const char *path = "/dev/penstock-none/x";
    ck_assert_int_eq(pst_file_create(NULL, path, &writer, &err), PST_EIO);
    assert_system_error(&err, path, ENOENT);
}
END_TEST

/* A folder for files, though its name begins as a device's. */
START_TEST(dev_shm)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/penstock-%ld", (long)getpid());
    if (access("/dev/shm", W_OK) != 0)
        return;
    pst_file_writer *writer = begin(path);
    pst_file_write(writer, "new", 3, NULL);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(pst_file_commit(writer, NULL), PST_OK);
    assert_file(path, "new");
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* Standard output leads to a file here, which has a line already. */
START_TEST(dev_stdout)
{
    int saved = dup(STDOUT_FILENO);
    ck_assert_ptr_nonnull(freopen(target, "w", stdout));
    fputs("before\n", stdout);
    fflush(stdout);
    pst_file_writer *writer = begin("/dev/stdout");
    pst_file_write(writer, "new\n", 4, NULL);
    pst_status status = pst_file_commit(writer, NULL);
    fputs("behind\n", stdout);
    fflush(stdout);
    ck_assert_int_ge(dup2(saved, STDOUT_FILENO), 0);
    close(saved);
    ck_assert_int_eq(status, PST_OK);
    assert_file(target, "before\nnew\nbehind\n");
}
END_TEST

/* ---- reading ------------------------------------------------------------ */

START_TEST(read_the_whole_file)
{
    char *data = NULL;
    size_t bytes = 99;
    put_file(target, "0F0,0B0\n");
    os.interrupts = 2;
    ck_assert_int_eq(pst_file_read(NULL, target, 0, &data, &bytes, NULL), PST_OK);
    ck_assert_uint_eq(bytes, 8);
    ck_assert_str_eq(data, "0F0,0B0\n");
    pst_release(NULL, data);
}
END_TEST

START_TEST(read_an_empty_file)
{
    char *data = NULL;
    size_t bytes = 99;
    put_file(target, "");
    ck_assert_int_eq(pst_file_read(NULL, target, 0, &data, &bytes, NULL), PST_OK);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_int_eq(data[0], 0);
    pst_release(NULL, data);
}
END_TEST

START_TEST(read_up_to_the_limit)
{
    char *data = NULL, text[2 * PATH_SIZE];
    size_t bytes;
    pst_error err = PST_ERROR_INIT;
    put_file(target, "12345678");
    ck_assert_int_eq(pst_file_read(NULL, target, 8, &data, &bytes, &err), PST_OK);
    pst_release(NULL, data);
    data = NULL;
    ck_assert_int_eq(pst_file_read(NULL, target, 7, &data, &bytes, &err), PST_EINVAL);
    snprintf(text, sizeof text, "%s: larger than the 7 bytes allowed", target);
    assert_error(&err, PST_EINVAL, "", 0, text);
    ck_assert_ptr_null(data);
}
END_TEST

START_TEST(read_what_is_not_there)
{
    char *data;
    size_t bytes;
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_file_read(NULL, target, 0, &data, &bytes, &err), PST_EIO);
    assert_system_error(&err, target, ENOENT);
}
END_TEST

START_TEST(read_a_folder)
{
    char *data;
    size_t bytes;
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_file_read(NULL, test_folder, 0, &data, &bytes, &err), PST_EIO);
    assert_system_error(&err, test_folder, EISDIR);
}
END_TEST

START_TEST(read_fails)
{
    char *data;
    size_t bytes;
    pst_error err = PST_ERROR_INIT;
    put_file(target, "old");
    os.read_error = EIO;
    ck_assert_int_eq(pst_file_read(NULL, target, 0, &data, &bytes, &err), PST_EIO);
    assert_system_error(&err, target, EIO);
}
END_TEST

/* ---- memory ------------------------------------------------------------- */

static pst_status write_and_read(const pst_env *env, pst_error *err)
{
    pst_file_writer *writer;
    char *data;
    size_t bytes;
    pst_status status = pst_file_create(env, target, &writer, err);
    if (status != PST_OK)
        return status;
    if ((status = pst_file_printf(writer, err, "%99999d", 1))) {
        pst_file_discard(writer);
        return status;
    }
    if ((status = pst_file_commit(writer, err)) ||
        (status = pst_file_read(env, target, 0, &data, &bytes, err)))
        return status;
    pst_release(env, data);
    return PST_OK;
}

START_TEST(each_allocation_may_fail)
{
    pst_status status = PST_ENOMEM;
    int at = 1;
    for (; status != PST_OK && at < 100; at++) {
        pst_error err = PST_ERROR_INIT;
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = write_and_read(&env, &err);
        ck_assert_int_eq(c.allocated, c.released);
        ck_assert_int_eq(status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
        ck_assert_int_eq((int)err.status, (int)status);
        ck_assert_int_le(walk_folder(0), 1);
    }
    ck_assert_int_gt(at, 5);
}
END_TEST

static void add_writing(Suite *suite)
{
    TCase *writing = tcase_create("write");
    tcase_add_checked_fixture(writing, set_up, remove_folder);
    tcase_add_test(writing, commit_makes_the_file);
    tcase_add_test(writing, commit_replaces_the_file);
    tcase_add_test(writing, an_empty_file);
    tcase_add_test(writing, discard_leaves_the_old_file);
    tcase_add_test(writing, discard_leaves_nothing);
    tcase_add_test(writing, permissions_stay);
    tcase_add_test(writing, a_link_stays_a_link);
    tcase_add_test(writing, a_name_without_a_folder);
    tcase_add_loop_test(writing, large_files, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(writing, printf_of_a_long_line);
    tcase_add_test(writing, interrupted_writes_go_on);
    tcase_add_test(writing, a_stale_temporary_file);
    tcase_add_test(writing, two_writers_of_one_file);
    suite_add_tcase(suite, writing);
}

static void add_failures(Suite *suite)
{
    TCase *failing = tcase_create("fail");
    tcase_add_checked_fixture(failing, set_up, remove_folder);
    tcase_add_test(failing, a_missing_folder);
    tcase_add_test(failing, a_folder_as_target);
    tcase_add_test(failing, a_folder_that_refuses);
    tcase_add_test(failing, every_temporary_name_is_taken);
    tcase_add_test(failing, a_full_disk);
    tcase_add_test(failing, a_full_buffer_on_a_full_disk);
    tcase_add_loop_test(failing, commit_fails, 0,
                        sizeof commit_failures / sizeof *commit_failures);
    tcase_add_test(failing, a_write_of_nothing_is_a_full_disk);
    tcase_add_test(failing, an_error_that_is_set_stays);
    tcase_add_loop_test(failing, a_folder_that_cannot_be_synced, 0, 3);
    tcase_add_test(failing, each_allocation_may_fail);
    suite_add_tcase(suite, failing);
}

static void add_devices(Suite *suite)
{
    TCase *devices = tcase_create("device");
    tcase_add_checked_fixture(devices, set_up, remove_folder);
    tcase_add_test(devices, dev_full_is_written_directly);
    tcase_add_test(devices, dev_null);
    tcase_add_test(devices, dev_shm);
    tcase_add_test(devices, a_device_that_is_not_there);
    tcase_add_test(devices, dev_stdout);
    suite_add_tcase(suite, devices);
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("file");
    add_writing(suite);
    add_failures(suite);
    add_devices(suite);
    TCase *reading = tcase_create("read");
    tcase_add_checked_fixture(reading, set_up, remove_folder);
    tcase_add_test(reading, read_the_whole_file);
    tcase_add_test(reading, read_an_empty_file);
    tcase_add_test(reading, read_up_to_the_limit);
    tcase_add_test(reading, read_what_is_not_there);
    tcase_add_test(reading, read_a_folder);
    tcase_add_test(reading, read_fails);
    suite_add_tcase(suite, reading);
    return suite;
}
