/* SPDX-License-Identifier: BSD-3-Clause */
/* test_gpt.c - configurations, cuts into stages, and lists of parameters. */
#include <string.h>

#include <penstock/gpt.h>

#include "model/gpt_layout.h"
#include "tests/suite.h"

START_TEST(defaults_are_the_small_model)
{
    pst_gpt_config c = {.layers = 0};
    ck_assert_int_eq(pst_gpt_config_complete(&c, NULL), PST_OK);
    ck_assert_int_eq(c.layers, 4);
    ck_assert_int_eq(c.heads, 4);
    ck_assert_int_eq(c.width, 128);
    ck_assert_int_eq(c.context, 64);
    ck_assert_int_eq(c.vocabulary, 256);
}
END_TEST

static const struct {
    pst_gpt_config config;
    const char *text;
} refused[] = {
    {{.heads = 3}, "3 heads for width 128; heads must divide the width: 2 or 4 works"},
    {{.heads = 200, .width = 128},
     "200 heads for width 128; heads must divide the width: 128 works"},
    {{.layers = -1}, "layers -1; it must be 1 .. 65535"},
    {{.width = 1 << 20}, "width 1048576; it must be 1 .. 65536"},
    {{.context = -4}, "context -4; it must be 1 .. 1048576"},
    {{.dropout = 1}, "dropout 1; it must be 0 .. below 1"},
    {{.dropout = -0.5f}, "dropout -0.5; it must be 0 .. below 1"},
    {{.layernorm_epsilon = -1},
     "layer norm epsilon -1; it must be above 0 and below 1"},
    {{.gelu = (pst_gelu)7}, "gelu form 7; 0 is exact and 1 is tanh"},
};

START_TEST(nonsense_is_refused_and_changes_nothing)
{
    pst_gpt_config c = refused[_i].config;
    const pst_gpt_config before = c;
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_gpt_config_complete(&c, &err), PST_EINVAL);
    ck_assert_str_eq(err.text, refused[_i].text);
    ck_assert_mem_eq(&c, &before, sizeof c);
}
END_TEST

START_TEST(blocks_are_dealt_out_evenly)
{
    const pst_gpt_config c = {.layers = 7};
    for (int stages = 1; stages <= 7; stages++) {
        int next = 0, larger = 8;
        for (int stage = 0; stage < stages; stage++) {
            int first, last;
            pst_gpt_blocks(&c, stage, stages, &first, &last);
            ck_assert_int_eq(first, next);
            ck_assert_int_ge(last - first, 7 / stages);
            ck_assert_int_le(last - first, larger);
            larger = last - first;
            next = last;
        }
        ck_assert_int_eq(next, 7);
    }
}
END_TEST

/* The same names in the same order for every cut; the copy of a tied head apart. */
START_TEST(parameters_have_one_order)
{
    pst_gpt_config c = {.untied = _i & 1, .bias = _i >> 1};
    static pst_parameter whole[64], part[64];
    pst_gpt_config_complete(&c, NULL);
    const size_t count = pst_gpt_parameters(&c, 0, 1, whole, 64, NULL);
    ck_assert_uint_le(count, 64);
    for (int stages = 2; stages <= 4; stages++) {
        size_t at = 0;
        for (int stage = 0; stage < stages; stage++) {
            const size_t own = pst_gpt_parameters(&c, stage, stages, part, 64, NULL);
            for (size_t i = 0; i < own; i++, at++) {
                ck_assert_str_eq(part[i].tensor.name, whole[at].tensor.name);
                ck_assert_uint_eq(part[i].tensor.count, whole[at].tensor.count);
                ck_assert_int_eq(part[i].tied_copy, whole[at].tied_copy);
                ck_assert_uint_eq(part[i].offset % 16, 0);
            }
        }
        ck_assert_uint_eq(at, count);
    }
    ck_assert_str_eq(whole[0].tensor.name, "wte.weight");
    ck_assert_str_eq(whole[count - 1].tensor.name, "lm_head.weight");
    ck_assert_int_eq(whole[count - 1].tied_copy, !c.untied);
}
END_TEST

/* nanoGPT's count for this model: 4 (12 128^2 + 2 128) + 128 + (256 + 64) 128. */
START_TEST(the_small_model_has_its_size)
{
    pst_gpt_config c = {.layers = 0};
    static pst_parameter list[64];
    size_t total = 0;
    pst_gpt_config_complete(&c, NULL);
    const size_t count = pst_gpt_parameters(&c, 0, 1, list, 64, NULL);
    for (size_t i = 0; i < count; i++)
        total += list[i].tied_copy ? 0 : list[i].tensor.count;
    ck_assert_uint_eq(total, 4 * (12 * 128 * 128 + 2 * 128) + 128 + (256 + 64) * 128);
}
END_TEST

START_TEST(a_layout_points_where_the_list_does)
{
    pst_gpt_config c = {.bias = 1};
    static pst_parameter list[64];
    pst__gpt_layout layout;
    pst_gpt_config_complete(&c, NULL);
    pst__gpt_layout_init(&layout, &c, 1, 2);
    const size_t count = pst_gpt_parameters(&c, 1, 2, list, 64, NULL);
    ck_assert_uint_eq(layout.wte, PST_NOWHERE);
    ck_assert_int_eq(layout.first, 2);
    ck_assert_int_eq(layout.last, 4);
    for (size_t i = 0; i < 2 * PST_BLOCK_PARTS; i++)
        ck_assert_uint_eq(list[i].offset,
                          layout.blocks + i / PST_BLOCK_PARTS * layout.block_stride +
                              layout.part[i % PST_BLOCK_PARTS]);
    ck_assert_uint_eq(list[count - 1].offset, layout.head);
    ck_assert_uint_eq(list[count - 3].offset, layout.ln_f_weight);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("gpt");
    TCase *all = tcase_create("all");
    tcase_add_test(all, defaults_are_the_small_model);
    tcase_add_loop_test(all, nonsense_is_refused_and_changes_nothing, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(all, blocks_are_dealt_out_evenly);
    tcase_add_loop_test(all, parameters_have_one_order, 0, 4);
    tcase_add_test(all, the_small_model_has_its_size);
    tcase_add_test(all, a_layout_points_where_the_list_does);
    suite_add_tcase(suite, all);
    return suite;
}
