/* SPDX-License-Identifier: BSD-3-Clause */
/* test_channel.c - messages by key: any order, and what cannot be right is refused. */
#include <check.h>
#include <stdio.h>

#include "stages/channel.h"
#include "tests/suite.h"

static pst_channel channel;

static void open_channel(uint32_t capacity, uint32_t arrived)
{
    channel.sender = 1;
    channel.receiver = 2;
    ck_assert(pst__channel_deepen(&channel, NULL, capacity, arrived));
}

static void close_channel(void)
{
    pst__channel_fini(&channel, NULL);
    ck_assert_ptr_null(channel.arrived);
    ck_assert_ptr_null(channel.ring.slot);
}

static pst_message key(pst_direction direction, int stage, int microbatch,
                       int iteration)
{
    return (pst_message){.direction = (uint8_t)direction,
                         .stage = (uint16_t)stage,
                         .microbatch = (uint32_t)microbatch,
                         .iteration = iteration};
}

static void send(pst_message message, size_t bytes)
{
    message.bytes = bytes;
    message.data = &channel;
    ck_assert(pst__channel_send(&channel, &message));
}

static void take(pst_message wanted, size_t bytes)
{
    pst_error err = PST_ERROR_INIT;
    pst_message message;
    ck_assert_int_eq(pst__channel_take(&channel, &wanted, &message, &err), PST__TAKEN);
    ck_assert_int_eq(message.direction, wanted.direction);
    ck_assert_int_eq(message.stage, wanted.stage);
    ck_assert_uint_eq(message.microbatch, wanted.microbatch);
    ck_assert_int_eq(message.iteration, wanted.iteration);
    ck_assert_uint_eq(message.bytes, bytes);
    ck_assert_ptr_eq(message.data, &channel);
    ck_assert_int_eq(err.status, PST_OK);
}

static void not_yet(pst_message wanted)
{
    pst_error err = PST_ERROR_INIT;
    pst_message message;
    ck_assert_int_eq(pst__channel_take(&channel, &wanted, &message, &err),
                     PST__NOT_YET);
    ck_assert_int_eq(err.status, PST_OK);
}

static void wrong(pst_message wanted, const char *text)
{
    pst_error err = PST_ERROR_INIT;
    pst_message message;
    ck_assert_int_eq(pst__channel_take(&channel, &wanted, &message, &err), PST__WRONG);
    ck_assert_int_eq(err.status, PST_ESCHEDULE);
    ck_assert_str_eq(err.text, text);
}

START_TEST(test_in_order)
{
    open_channel(4, 0);
    not_yet(key(PST__FORWARD, 2, 0, 1));
    for (int i = 0; i < 4; i++)
        send(key(PST__FORWARD, 2, i, 1), 10 + (size_t)i);
    for (int i = 0; i < 4; i++)
        take(key(PST__FORWARD, 2, i, 1), 10 + (size_t)i);
    not_yet(key(PST__FORWARD, 2, 0, 1));
    close_channel();
}
END_TEST

/* All orders in which five messages may be asked for. */
static void take_in_order(unsigned number)
{
    int left[5] = {0, 1, 2, 3, 4};
    for (int i = 0; i < 5; i++)
        send(key(PST__FORWARD, 2, i, 7), (size_t)i);
    for (unsigned count = 5; count > 0; number /= count--) {
        const unsigned place = number % count;
        take(key(PST__FORWARD, 2, left[place], 7), (size_t)left[place]);
        left[place] = left[count - 1];
    }
    not_yet(key(PST__FORWARD, 2, 0, 7));
}

START_TEST(test_any_order)
{
    open_channel(5, 4);
    for (unsigned number = 0; number < 120; number++)
        take_in_order(number);
    close_channel();
}
END_TEST

START_TEST(test_every_part_of_the_key_counts)
{
    open_channel(8, 8);
    send(key(PST__FORWARD, 2, 3, 5), 1);
    send(key(PST__BACKWARD, 2, 3, 5), 2);
    send(key(PST__FORWARD, 4, 3, 5), 3);
    send(key(PST__FORWARD, 2, 4, 5), 4);
    take(key(PST__FORWARD, 2, 4, 5), 4);
    take(key(PST__FORWARD, 4, 3, 5), 3);
    not_yet(key(PST__BACKWARD, 4, 3, 5));
    take(key(PST__BACKWARD, 2, 3, 5), 2);
    take(key(PST__FORWARD, 2, 3, 5), 1);
    close_channel();
}
END_TEST

START_TEST(test_full)
{
    const pst_message more = key(PST__FORWARD, 2, 2, 1);
    open_channel(2, 1);
    send(key(PST__FORWARD, 2, 0, 1), 0);
    send(key(PST__FORWARD, 2, 1, 1), 1);
    ck_assert(!pst__channel_send(&channel, &more));
    take(key(PST__FORWARD, 2, 1, 1), 1);
    send(more, 2);
    take(key(PST__FORWARD, 2, 0, 1), 0);
    take(more, 2);
    close_channel();
}
END_TEST

START_TEST(test_wrong_iteration)
{
    open_channel(2, 2);
    send(key(PST__BACKWARD, 2, 3, 8), 0);
    wrong(
        key(PST__FORWARD, 4, 1, 9),
        "rank 2 waits for the activation for stage 4, microbatch 1 of iteration 9 and "
        "rank 1 sent the gradient for stage 2, microbatch 3 of iteration 8, which is "
        "another iteration");
    close_channel();
}
END_TEST

START_TEST(test_twice)
{
    open_channel(3, 3);
    send(key(PST__FORWARD, 2, 5, 1), 0);
    send(key(PST__FORWARD, 2, 5, 1), 0);
    wrong(
        key(PST__FORWARD, 2, 6, 1),
        "rank 2 waits for the activation for stage 2, microbatch 6 of iteration 1 and "
        "rank 1 sent the activation for stage 2, microbatch 5 of iteration 1, which "
        "had "
        "come before");
    close_channel();
}
END_TEST

START_TEST(test_too_many)
{
    open_channel(3, 1);
    send(key(PST__FORWARD, 2, 0, 1), 0);
    send(key(PST__FORWARD, 2, 1, 1), 0);
    wrong(
        key(PST__FORWARD, 2, 2, 1),
        "rank 2 waits for the activation for stage 2, microbatch 2 of iteration 1 and "
        "rank 1 sent the activation for stage 2, microbatch 1 of iteration 1, which "
        "the "
        "lists do not allow");
    close_channel();
}
END_TEST

START_TEST(test_reset_forgets)
{
    open_channel(3, 2);
    send(key(PST__FORWARD, 2, 0, 1), 0);
    send(key(PST__FORWARD, 2, 1, 1), 0);
    send(key(PST__FORWARD, 2, 2, 1), 0);
    take(key(PST__FORWARD, 2, 1, 1), 0);
    pst__channel_reset(&channel);
    not_yet(key(PST__FORWARD, 2, 0, 1));
    not_yet(key(PST__FORWARD, 2, 2, 1));
    send(key(PST__FORWARD, 2, 0, 2), 6);
    take(key(PST__FORWARD, 2, 0, 2), 6);
    close_channel();
}
END_TEST

START_TEST(test_deepen)
{
    open_channel(1, 0);
    open_channel(4, 3);
    ck_assert_uint_eq(channel.ring.capacity, 4);
    ck_assert_uint_eq(channel.arrived_room, 3);
    const pst_ring_slot *slot = channel.ring.slot;
    open_channel(2, 1);
    ck_assert_uint_eq(channel.ring.capacity, 4);
    ck_assert_uint_eq(channel.arrived_room, 3);
    ck_assert_ptr_eq(channel.ring.slot, slot);
    for (int i = 0; i < 4; i++)
        send(key(PST__FORWARD, 2, i, 1), (size_t)i);
    for (int i = 4; i-- > 0;)
        take(key(PST__FORWARD, 2, i, 1), (size_t)i);
    close_channel();
}
END_TEST

static void *nothing(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    (void)bytes;
    (void)alignment;
    return NULL;
}

static void never_release(void *user, void *memory)
{
    (void)user;
    (void)memory;
}

START_TEST(test_no_memory_changes_nothing)
{
    const pst_env env = {.allocate = nothing, .release = never_release};
    open_channel(2, 1);
    ck_assert(!pst__channel_deepen(&channel, &env, 3, 1));
    ck_assert(!pst__channel_deepen(&channel, &env, 2, 2));
    send(key(PST__FORWARD, 2, 0, 1), 0);
    send(key(PST__FORWARD, 2, 1, 1), 1);
    take(key(PST__FORWARD, 2, 1, 1), 1);
    take(key(PST__FORWARD, 2, 0, 1), 0);
    close_channel();
}
END_TEST

START_TEST(test_text)
{
    char text[80];
    const pst_message forward = key(PST__FORWARD, 65535, 0, 0);
    const pst_message backward = key(PST__BACKWARD, 0, 2147483647, 0);
    ck_assert_str_eq(pst__message_text(&forward, text, sizeof text),
                     "the activation for stage 65535, microbatch 0");
    ck_assert_str_eq(pst__message_text(&backward, text, sizeof text),
                     "the gradient for stage 0, microbatch 2147483647");
    ck_assert_str_eq(pst__message_text(&backward, text, 13), "the gradient");
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("channel");
    TCase *all = tcase_create("channel");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, test_in_order);
    tcase_add_test(all, test_any_order);
    tcase_add_test(all, test_every_part_of_the_key_counts);
    tcase_add_test(all, test_full);
    tcase_add_test(all, test_wrong_iteration);
    tcase_add_test(all, test_twice);
    tcase_add_test(all, test_too_many);
    tcase_add_test(all, test_reset_forgets);
    tcase_add_test(all, test_deepen);
    tcase_add_test(all, test_no_memory_changes_nothing);
    tcase_add_test(all, test_text);
    suite_add_tcase(suite, all);
    return suite;
}
