/* SPDX-License-Identifier: BSD-3-Clause */
/* test_safetensors.c - round trips, other number types, and files that lie. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/safetensors.h>

#include "model/little_endian.h"
#include "tests/model/support.h"
#include "tests/suite.h"

static char *folder;
static char *path;

static void set_up(void)
{
    folder = make_folder();
    path = strdup(in_folder(folder, "x.safetensors"));
}

static void tear_down(void)
{
    free(path);
    remove_folder(folder);
}

static pst_safetensors *must_open(const char *name)
{
    pst_error err = PST_ERROR_INIT;
    pst_safetensors *file = NULL;
    ck_assert_msg(pst_safetensors_open(NULL, name, &file, &err) == PST_OK, "%s",
                  err.text);
    return file;
}

START_TEST(what_is_written_is_read)
{
    float a[6] = {1, -2, 3.5f, -0.0f, INFINITY, 1e-40f}, b[1] = {7}, c[1];
    const pst_tensor tensors[] = {
        {.name = "z.last", .dims = 2, .shape = {2, 3}, .count = 6, .data = a},
        {.name = "a.scalar", .dims = 0, .count = 1, .data = b},
        {.name = "m.none", .dims = 2, .shape = {0, 4}, .count = 0, .data = c},
    };
    const pst_metadata metadata[] = {{"format", "pt"}, {"who \"quotes\"", "\xc3\xa4"}};
    pst_error err = PST_ERROR_INIT;
    ck_assert_msg(pst_safetensors_write(NULL, path, tensors, 3, metadata, 2, &err) ==
                      PST_OK,
                  "%s", err.text);
    pst_safetensors *file = must_open(path);
    ck_assert_uint_eq(pst_safetensors_count(file), 3);
    const long z = pst_safetensors_find(file, "z.last");
    const char *dtype;
    const pst_tensor *found = pst_safetensors_tensor(file, (size_t)z, &dtype);
    ck_assert_str_eq(dtype, "F32");
    ck_assert_int_eq(found->dims, 2);
    ck_assert_uint_eq(found->shape[1], 3);
    float back[6];
    ck_assert_int_eq(pst_safetensors_read(file, (size_t)z, back, &err), PST_OK);
    ck_assert_mem_eq(back, a, sizeof a);
    ck_assert_int_eq(pst_safetensors_find(file, "none"), -1);
    ck_assert_str_eq(pst_safetensors_metadata(file, "format"), "pt");
    ck_assert_str_eq(pst_safetensors_metadata(file, "who \"quotes\""), "\xc3\xa4");
    ck_assert_ptr_null(pst_safetensors_metadata(file, "other"));
    pst_safetensors_close(file);
}
END_TEST

/* N as the length, or the header's own where N is 0. */
static void write_raw(const char *header, uint64_t n, const void *data, size_t bytes)
{
    static unsigned char whole[1 << 16];
    const size_t length = strlen(header);
    pst__store_le(whole, n ? n : length, 8);
    memcpy(whole + 8, header, length);
    memcpy(whole + 8 + length, data, bytes);
    write_file(path, whole, 8 + length + bytes);
}

START_TEST(other_number_types_are_converted)
{
    /* bf16 1.5 and -2, f16 1.5, smallest subnormal, -inf, f64 0.1; data unaligned */
    static const char header[] =
        "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[4,10]},"
        "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[10,18]},"
        "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[18,22]}}";
    unsigned char data[22] = {0xc0, 0x3f, 0, 0xc0, 0, 0x3e, 1, 0, 0, 0xfc};
    const double tenth = 0.1;
    memcpy(data + 10, &tenth, 8);
    write_raw(header, 0, data, sizeof data);
    pst_safetensors *file = must_open(path);
    float x[3];
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_safetensors_read(file, 0, x, &err), PST_OK);
    ck_assert_float_eq(x[0], 1.5f);
    ck_assert_float_eq(x[1], -2);
    ck_assert_int_eq(pst_safetensors_read(file, 1, x, &err), PST_OK);
    ck_assert_float_eq(x[0], 1.5f);
    ck_assert_float_eq(x[1], 5.9604644775390625e-8f);
    ck_assert_float_eq(x[2], -INFINITY);
    ck_assert_int_eq(pst_safetensors_read(file, 2, x, &err), PST_OK);
    ck_assert_float_eq(x[0], 0.1f);
    ck_assert_int_eq(pst_safetensors_read(file, 3, x, &err), PST_EFORMAT);
    ck_assert_ptr_nonnull(
        strstr(err.text, "tensor i is of I32; F32, F16, BF16 and F64 can be read"));
    pst_safetensors_close(file);
}
END_TEST

#define T(name, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin     \
    "," end "]}"

static const struct {
    const char *header;
    uint64_t n;
    size_t data_bytes;
    const char *text;
} bad[] = {
    {"{" T("a", "[2]", "0", "8") "}", 0, 4,
     "tensor a ends at data byte 8; the file has 4 of data: it is cut off"},
    {"{" T("a", "[2]", "0", "8") "}", 0, 12,
     "the tensors end at data byte 8 and the file has 12: bytes that belong to none"},
    {"{" T("a", "[2]", "0", "8") "," T("b", "[1]", "4", "8") "}", 0, 8,
     "tensor b begins at data byte 4 where 8 was due: two tensors overlap"},
    {"{" T("a", "[1]", "0", "4") "," T("b", "[1]", "8", "12") "}", 0, 12,
     "tensor b begins at data byte 8 where 4 was due: a hole"},
    {"{" T("a", "[3]", "0", "8") "}", 0, 8,
     "tensor a has data of another size than its shape"},
    {"{" T("a", "[-1]", "0", "4") "}", 0, 4,
     "tensor a has a dimension that is not a number >= 0"},
    {"{" T("a", "[1,1,1,1,1]", "0", "4") "}", 0, 4,
     "tensor a has more than 4 dimensions"},
    {"{" T("a", "[4294967296,4294967296]", "0", "0") "}", 0, 0,
     "tensor a is larger than any memory"},
    {"{" T("a", "[1]", "4", "0") "}", 0, 4,
     "tensor a has no data_offsets [begin, end]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, 4,
     "tensor a has no data_offsets [begin, end]"},
    {"{\"a\":{\"dtype\":\"Q7\",\"shape\":[1],\"data_offsets\":[0,4]}}", 0, 4,
     "tensor a has the unknown dtype Q7"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 0, 4, "tensor a has no dtype"},
    {"{\"a\":3}", 0, 0, "tensor a has no dtype"},
    {"{" T("a", "[1]", "0", "4") "," T("a", "[1]", "4", "8") "}", 0, 8,
     "the header is not JSON: duplicate object key near '\"a\"'"},
    {"{]", 0, 0, "the header is not JSON: string or '}' expected near ']'"},
    {"{}", 1000, 0,
     "this is not a safetensors file, or it is cut off: it has 10 bytes"},
    {"{}", UINT64_MAX, 0,
     "this is not a safetensors file, or it is cut off: it has 10 bytes"},
    {"[]", 0, 0, "this is not a safetensors file, or it is cut off: it has 10 bytes"},
};

START_TEST(files_that_lie_are_refused)
{
    static const char zeros[64];
    pst_error err = PST_ERROR_INIT;
    pst_safetensors *file = NULL;
    write_raw(bad[_i].header, bad[_i].n, zeros, bad[_i].data_bytes);
    ck_assert_int_eq(pst_safetensors_open(NULL, path, &file, &err), PST_EFORMAT);
    ck_assert_ptr_null(file);
    ck_assert_msg(strncmp(err.text, path, strlen(path)) == 0, "%s", err.text);
    ck_assert_str_eq(err.text + strlen(path) + 2, bad[_i].text);
}
END_TEST

START_TEST(git_lfs_pointers_are_named)
{
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    pst_error err = PST_ERROR_INIT;
    pst_safetensors *file = NULL;
    write_file(path, pointer, sizeof pointer - 1);
    ck_assert_int_eq(pst_safetensors_open(NULL, path, &file, &err), PST_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "this is a Git LFS pointer"));
    write_file(path, "", 0);
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_safetensors_open(NULL, path, &file, &err), PST_EFORMAT);
}
END_TEST

/* Any prefix of a good file is refused. */
START_TEST(every_truncation_is_seen)
{
    float a[3] = {1, 2, 3};
    const pst_tensor tensor = {
        .name = "a", .dims = 1, .shape = {3}, .count = 3, .data = a};
    char whole[512];
    ck_assert_int_eq(pst_safetensors_write(NULL, path, &tensor, 1, NULL, 0, NULL),
                     PST_OK);
    FILE *from = fopen(path, "rb");
    const size_t bytes = fread(whole, 1, sizeof whole, from);
    fclose(from);
    ck_assert_uint_eq((bytes - 12) % 8, 0);
    for (size_t cut = 0; cut < bytes; cut++) {
        pst_safetensors *file = NULL;
        write_file(path, whole, cut);
        ck_assert_int_eq(pst_safetensors_open(NULL, path, &file, NULL), PST_EFORMAT);
    }
}
END_TEST

START_TEST(a_full_disk_leaves_the_old_file)
{
    float a[3] = {1, 2, 3};
    const pst_tensor tensor = {
        .name = "a", .dims = 1, .shape = {3}, .count = 3, .data = a};
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(
        pst_safetensors_write(NULL, "/dev/full", &tensor, 1, NULL, 0, &err), PST_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "No space left on device"));
}
END_TEST

START_TEST(the_public_reference_file_opens)
{
    pst_safetensors *file = must_open(data_file("models/gpt2-tiny.safetensors"));
    ck_assert_int_ge(pst_safetensors_find(file, "wte.weight"), 0);
    pst_safetensors_close(file);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, what_is_written_is_read);
    tcase_add_test(all, other_number_types_are_converted);
    tcase_add_loop_test(all, files_that_lie_are_refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(all, git_lfs_pointers_are_named);
    tcase_add_test(all, every_truncation_is_seen);
    tcase_add_test(all, a_full_disk_leaves_the_old_file);
    tcase_add_test(all, the_public_reference_file_opens);
    suite_add_tcase(suite, all);
    return suite;
}
