/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_checkpoint.c - save and resume give an unbroken run's bits; damage of every byte
 * is seen, and the older checkpoint is taken; nothing half-written stays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/model/support.h"
#include "tests/suite.h"

static char *folder;
static const char *dir;

static void set_up(void)
{
    folder = make_folder();
    dir = strdup(in_folder(folder, "run"));
}

static void tear_down(void)
{
    free((char *)dir);
    remove_folder(folder);
}

static small how_with(const char *schedule, int stages)
{
    return (small){.schedule = schedule,
                   .stages = stages,
                   .model = {.context = 8, .vocabulary = 32, .dropout = 0.1f},
                   .optimizer = {.lr = 1e-2, .min_lr = -1, .clip = 1, .steps = 8}};
}

static void train(pst_trainer *trainer, const small *how, int steps)
{
    for (int i = 0; i < steps; i++)
        step_of(trainer, how, (uint64_t)pst_trainer_steps(trainer));
}

static void must_save(pst_trainer *trainer)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_msg(pst_trainer_save(trainer, dir, &err) == PST_OK, "%s", err.text);
}

static int exists(const char *name)
{
    struct stat status;
    return stat(in_folder(dir, name), &status) == 0;
}

/* A run is saved after 3 steps and resumed with another cut. */
START_TEST(a_resumed_run_has_the_bits_of_an_unbroken_one)
{
    const small first = how_with("1f1b", 2), second = how_with("gpipe", 1 + _i);
    char unbroken[65], resumed[65];
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&first);
    train(trainer, &first, 3);
    must_save(trainer);
    train(trainer, &first, 3);
    pst_trainer_digest(trainer, unbroken);
    pst_trainer_destroy(trainer);

    trainer = small_trainer(&second);
    ck_assert_msg(pst_trainer_resume(trainer, dir, &err) == PST_OK, "%s", err.text);
    ck_assert_int_eq(pst_trainer_steps(trainer), 3);
    train(trainer, &second, 3);
    ck_assert_str_eq(pst_trainer_digest(trainer, resumed), unbroken);
    pst_trainer_destroy(trainer);
}
END_TEST

/* Steps go on while the state from before them is written. */
START_TEST(a_save_under_way_has_the_state_that_it_began_with)
{
    const small how = how_with("1f1b", 2);
    char saved[65], found[65], ends[65];
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&how);
    ck_assert_int_eq(pst_trainer_save_poll(trainer, &err), PST_OK);
    for (int i = 1; i <= 3; i++) {
        train(trainer, &how, 1);
        ck_assert_msg(pst_trainer_save_finish(trainer, &err) == PST_OK, "%s", err.text);
        pst_trainer_digest(trainer, saved);
        ck_assert_msg(pst_trainer_save_begin(trainer, dir, &err) == PST_OK, "%s",
                      err.text);
    }
    for (int i = 0; i < 3; i++) {
        train(trainer, &how, 1);
        ck_assert_msg(pst_trainer_save_poll(trainer, &err) == PST_OK, "%s", err.text);
    }
    pst_trainer_digest(trainer, ends);
    pst_trainer_destroy(trainer); /* which waits */
    ck_assert(!exists("step-00000001"));
    ck_assert(exists("step-00000002"));

    trainer = small_trainer(&how);
    ck_assert_msg(pst_trainer_resume(trainer, dir, &err) == PST_OK, "%s", err.text);
    ck_assert_int_eq(pst_trainer_steps(trainer), 3);
    ck_assert_str_eq(pst_trainer_digest(trainer, found), saved);
    train(trainer, &how, 3);
    ck_assert_str_eq(pst_trainer_digest(trainer, found), ends);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(what_a_thread_could_not_write_is_told_later)
{
    const small how = how_with("1f1b", 1);
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&how);
    must_save(trainer);
    train(trainer, &how, 1);
    write_file(in_folder(dir, "step-00000001"), "in the way", 10);
    ck_assert_msg(pst_trainer_save_begin(trainer, dir, &err) == PST_OK, "%s", err.text);
    ck_assert_int_eq(pst_trainer_save(trainer, dir, &err), PST_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "step-00000001"));
    ck_assert(exists("step-00000000/manifest.json"));
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_trainer_save_finish(trainer, &err), PST_OK);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(two_newest_are_kept)
{
    const small how = how_with("1f1b", 1);
    pst_trainer *trainer = small_trainer(&how);
    for (int i = 0; i < 4; i++) {
        train(trainer, &how, 1);
        must_save(trainer);
    }
    ck_assert(!exists("step-00000002"));
    ck_assert(exists("step-00000003/manifest.json"));
    ck_assert(exists("step-00000004/manifest.json"));
    must_save(trainer); /* the same step once more takes its place */
    ck_assert(exists("step-00000004/manifest.json"));
    ck_assert(!exists("step-00000004.tmp"));
    pst_trainer_destroy(trainer);
}
END_TEST

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*bytes);
    ck_assert_uint_eq(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

static const char *const files[] = {"model.safetensors", "optimizer.safetensors",
                                    "manifest.json"};

/* Damage in the newer of two: the older one is taken, whatever it is. */
START_TEST(a_damaged_checkpoint_is_passed_over)
{
    const small how = how_with("1f1b", 1);
    char name[64], older[65], newer[65], found[65];
    pst_trainer *trainer = small_trainer(&how);
    train(trainer, &how, 1);
    must_save(trainer);
    pst_trainer_digest(trainer, older);
    train(trainer, &how, 1);
    must_save(trainer);
    pst_trainer_digest(trainer, newer);
    snprintf(name, sizeof name, "step-00000002/%s", files[_i]);
    size_t bytes;
    char *good = read_whole(in_folder(dir, name), &bytes);
    for (size_t round = 0; round < 60; round++) {
        const size_t at = round * (bytes - 1) / 59;
        if (round % 3 == 2) {
            write_file(in_folder(dir, name), good, at); /* cut off */
        } else {
            good[at] ^= (char)(1 << round % 8);
            write_file(in_folder(dir, name), good, bytes);
            good[at] ^= (char)(1 << round % 8);
        }
        pst_error err = PST_ERROR_INIT;
        ck_assert_msg(pst_trainer_resume(trainer, dir, &err) == PST_OK, "%s", err.text);
        pst_trainer_digest(trainer, found);
        /* A bit may be one that does not matter, such as white space. */
        const int64_t step = pst_trainer_steps(trainer);
        ck_assert_str_eq(found, step == 1 ? older : newer);
        ck_assert(step == 1 || round % 3 != 2 || at + 1 == bytes);
    }
    free(good);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(damage_with_nothing_older_is_an_error_and_changes_nothing)
{
    const small how = how_with("1f1b", 1);
    char before[65], after[65], name[64], text[1024];
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&how);
    train(trainer, &how, 1);
    must_save(trainer);
    train(trainer, &how, 1);
    pst_trainer_digest(trainer, before);
    snprintf(name, sizeof name, "step-00000001/%s", files[1]);
    size_t bytes;
    char *data = read_whole(in_folder(dir, name), &bytes);
    data[bytes - 5] ^= 4;
    write_file(in_folder(dir, name), data, bytes);
    free(data);
    ck_assert_int_eq(pst_trainer_resume(trainer, dir, &err), PST_EFORMAT);
    snprintf(
        text, sizeof text,
        "%s/%s: the checksum of tensor v.wte.weight is wrong; no checkpoint in %s is "
        "complete",
        dir, name, dir);
    ck_assert_str_eq(err.text, text);
    ck_assert_str_eq(pst_trainer_digest(trainer, after), before);
    ck_assert_int_eq(pst_trainer_steps(trainer), 2);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(another_setting_is_named)
{
    small how = how_with("1f1b", 1);
    pst_error err = PST_ERROR_INIT;
    char text[1024];
    pst_trainer *trainer = small_trainer(&how);
    train(trainer, &how, 1);
    must_save(trainer);
    pst_trainer_destroy(trainer);
    how.model.heads = 4;
    trainer = small_trainer(&how);
    ck_assert_int_eq(pst_trainer_resume(trainer, dir, &err), PST_EINVAL);
    snprintf(
        text, sizeof text,
        "%s/step-00000001: the checkpoint has heads 2 and this run 4; a resumed run "
        "must share it",
        dir);
    ck_assert_str_eq(err.text, text);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(no_checkpoint_is_an_error)
{
    const small how = how_with("1f1b", 1);
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&how);
    ck_assert_int_eq(pst_trainer_resume(trainer, dir, &err), PST_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "No such file or directory"));
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_trainer_resume(trainer, folder, &err), PST_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "there is no checkpoint in this folder"));
    pst_trainer_destroy(trainer);
}
END_TEST

/* What a killed save left is no checkpoint, and the next save takes it away. */
START_TEST(an_unfinished_save_is_ignored_and_replaced)
{
    const small how = how_with("1f1b", 1);
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&how);
    train(trainer, &how, 1);
    must_save(trainer);
    train(trainer, &how, 1);
    ck_assert_int_eq(mkdir(in_folder(dir, "step-00000002.tmp"), 0777), 0);
    write_file(in_folder(dir, "step-00000002.tmp/model.safetensors"), "half", 4);
    ck_assert_int_eq(mkdir(in_folder(dir, "step-00000009"), 0777), 0);
    ck_assert_msg(pst_trainer_resume(trainer, dir, &err) == PST_OK, "%s", err.text);
    ck_assert_int_eq(pst_trainer_steps(trainer), 1);
    train(trainer, &how, 1);
    must_save(trainer);
    ck_assert(exists("step-00000002/manifest.json"));
    ck_assert(!exists("step-00000002.tmp"));
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_named)
{
    const small how = how_with("1f1b", 1);
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = small_trainer(&how);
    write_file(in_folder(folder, "file"), "x", 1);
    ck_assert_int_eq(pst_trainer_save(trainer, in_folder(folder, "file/run"), &err),
                     PST_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "Not a directory"));
    pst_trainer_destroy(trainer);
}
END_TEST

/* The saved weights are a file that other programs, and load_weights, read. */
START_TEST(saved_weights_can_be_loaded_alone)
{
    const small how = how_with("1f1b", 2), again = how_with("1f1b", 3);
    pst_error err = PST_ERROR_INIT;
    char saved[65], loaded[65];
    pst_trainer *trainer = small_trainer(&how);
    train(trainer, &how, 1);
    must_save(trainer);
    pst_trainer_digest(trainer, saved);
    pst_trainer_destroy(trainer);
    trainer = small_trainer(&again);
    ck_assert_msg(
        pst_trainer_load_weights(
            trainer, in_folder(dir, "step-00000001/model.safetensors"), &err) == PST_OK,
        "%s", err.text);
    ck_assert_str_eq(pst_trainer_digest(trainer, loaded), saved);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(weights_of_another_model_are_refused_by_name)
{
    small how = how_with("1f1b", 1);
    pst_error err = PST_ERROR_INIT;
    char before[65], after[65];
    pst_trainer *trainer = small_trainer(&how);
    must_save(trainer);
    pst_trainer_destroy(trainer);
    how.model.layers = 3;
    how.model.vocabulary = 40;
    trainer = small_trainer(&how);
    pst_trainer_digest(trainer, before);
    ck_assert_int_eq(
        pst_trainer_load_weights(
            trainer, in_folder(dir, "step-00000000/model.safetensors"), &err),
        PST_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "does not fit the model (7 differences): "));
    ck_assert_ptr_nonnull(
        strstr(err.text, "h.3.attn.c_attn.weight is not in the model"));
    ck_assert_ptr_nonnull(
        strstr(err.text, "wte.weight has shape (32, 16) and the model (40, 16)"));
    ck_assert_str_eq(pst_trainer_digest(trainer, after), before);
    pst_trainer_destroy(trainer);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 240);
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_loop_test(all, a_resumed_run_has_the_bits_of_an_unbroken_one, 0, 3);
    tcase_add_test(all, a_save_under_way_has_the_state_that_it_began_with);
    tcase_add_test(all, what_a_thread_could_not_write_is_told_later);
    tcase_add_test(all, two_newest_are_kept);
    tcase_add_loop_test(all, a_damaged_checkpoint_is_passed_over, 0, 3);
    tcase_add_test(all, damage_with_nothing_older_is_an_error_and_changes_nothing);
    tcase_add_test(all, another_setting_is_named);
    tcase_add_test(all, no_checkpoint_is_an_error);
    tcase_add_test(all, an_unfinished_save_is_ignored_and_replaced);
    tcase_add_test(all, a_folder_that_cannot_be_made_is_named);
    tcase_add_test(all, saved_weights_can_be_loaded_alone);
    tcase_add_test(all, weights_of_another_model_are_refused_by_name);
    suite_add_tcase(suite, all);
    return suite;
}
