/* SPDX-License-Identifier: BSD-3-Clause */
/* test_csv.c - schedule_csv.c: what is written is read, and what is not is refused. */
#include <errno.h>
#include <string.h>

#include <penstock/registry.h>
#include <penstock/schedule_csv.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

/* ---- what is read ------------------------------------------------------- */

static const struct {
    const char *text;
    int ranks, stages, microbatches;
    const char *rows[3];
} read_texts[] = {
    {"0F0", 1, 1, 1, {"0F0"}},
    {"0F0\n", 1, 1, 1, {"0F0"}},
    {"0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n",
     2,
     2,
     2,
     {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"}},
    /* line ends */
    {"0F0,0B0\r\n1F0,1B0\r\n", 2, 2, 1, {"0F0 0B0", "1F0 1B0"}},
    {"0F0,0B0\r\n1F0,1B0", 2, 2, 1, {"0F0 0B0", "1F0 1B0"}},
    {"0F0,0B0\n1F0,1B0\r", 2, 2, 1, {"0F0 0B0", "1F0 1B0"}},
    /* blank cells and lines */
    {",0F0,,  ,\t,0B0,,\n", 1, 1, 1, {"0F0 0B0"}},
    {" 0F0 ,\t0B0\t\n", 1, 1, 1, {"0F0 0B0"}},
    {"\n0F0\n\n", 3, 1, 1, {"", "0F0", ""}},
    {"\r\n0F0\r\n", 2, 1, 1, {"", "0F0"}},
    {",,,\n0F0,\n", 2, 1, 1, {"", "0F0"}},
    /* every operation */
    {"0F0,0I0,0W0,0SEND_F0,0RECV_F0,0SEND_B0,0RECV_B0,0UNSHARD,0RESHARD,0REDUCE_GRAD\n",
     1,
     1,
     1,
     {"0F0 0I0 0W0 0SEND_F0 0RECV_F0 0SEND_B0 0RECV_B0 0UNSHARD 0RESHARD "
      "0REDUCE_GRAD"}},
    /* pairs */
    {"(5F3;2B1)OVERLAP_F_B\n", 1, 6, 4, {"(5F3 2B1"}},
    {" ( 1F0 ; 0I1 ) OVERLAP_F_B ,0F0\n", 1, 2, 2, {"(1F0 0I1 0F0"}},
    {"(0F0;0F1)OVERLAP_F_B\n", 1, 1, 2, {"(0F0 0F1"}},
    /* numbers */
    {"007F01\n", 1, 8, 2, {"7F1"}},
    {"00000000000000000000000000001F2\n", 1, 2, 3, {"1F2"}},
    /* ids may leave gaps, for the checker to name */
    {"3F0\n0F5\n", 2, 4, 6, {"3F0", "0F5"}},
};

START_TEST(texts_that_are_read)
{
    char row[ROW_SIZE];
    pst_schedule *schedule = parse(read_texts[_i].text);
    ck_assert_int_eq(pst_schedule_ranks(schedule), read_texts[_i].ranks);
    ck_assert_int_eq(pst_schedule_stages(schedule), read_texts[_i].stages);
    ck_assert_int_eq(pst_schedule_microbatches(schedule), read_texts[_i].microbatches);
    for (int rank = 0; rank < read_texts[_i].ranks; rank++)
        ck_assert_str_eq(row_text(schedule, rank, row), read_texts[_i].rows[rank]);
    ck_assert_str_eq(pst_schedule_name(schedule), "t.csv");
    ck_assert_str_eq(pst_schedule_file(schedule), "t.csv");
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(cells_are_numbered_with_idle_ones)
{
    pst_schedule *schedule = parse("0F0,,(0F1;0B0)OVERLAP_F_B,0B1\n,,0UNSHARD\n");
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 0), 1);
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 1), 3);
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 3), 4);
    ck_assert_uint_eq(pst_schedule_cell(schedule, 1, 0), 3);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(operations_without_a_microbatch)
{
    size_t count;
    pst_schedule *schedule = parse("0F0,0UNSHARD\n");
    const pst_action *row = pst_schedule_row(schedule, 0, &count);
    ck_assert_uint_eq(row[1].microbatch, PST_NO_MICROBATCH);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(the_text_need_not_end_in_zero)
{
    char row[ROW_SIZE];
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(
        pst_schedule_parse_csv(NULL, "t.csv", "0F0,0B0junk", 7, NULL, &schedule, NULL),
        PST_OK);
    ck_assert_str_eq(row_text(schedule, 0, row), "0F0 0B0");
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- what is refused ---------------------------------------------------- */

#define GRAMMAR                                                                        \
    "expected STAGE OP MICROBATCH such as 2F5, with OP one of F, B, I, W, SEND_F, "    \
    "RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD"
#define OLD_DIALECT                                                                    \
    "BW belongs to the dialect from before November 2024, where B was the input "      \
    "part; write I for that B, and B for this BW"
#define NO_ACTION "no action in it; expected one line a rank, such as 0F0,0B0"

typedef struct malformed {
    const char *text;
    int line;
    const char *message;
} malformed;

static const malformed refused[] = {
    /* nothing */
    {"", 1, NO_ACTION},
    {"\n", 1, NO_ACTION},
    {"\r\n\r\n", 1, NO_ACTION},
    {" ,,\t\n,\n", 1, NO_ACTION},
    /* no action */
    {"0F0,junk\n", 1, "cell 2 (\"junk\"): " GRAMMAR},
    {"0F0\n1F0,,F0\n", 2, "cell 3 (\"F0\"): " GRAMMAR},
    {"0F0\n0\n", 2, "cell 1 (\"0\"): " GRAMMAR},
    {"12\n", 1, "cell 1 (\"12\"): " GRAMMAR},
    {"0f0\n", 1, "cell 1 (\"0f0\"): " GRAMMAR},
    {"0X0\n", 1, "cell 1 (\"0X0\"): " GRAMMAR},
    {"0FOO\n", 1, "cell 1 (\"0FOO\"): " GRAMMAR},
    {"0SEND_0\n", 1, "cell 1 (\"0SEND_0\"): " GRAMMAR},
    {"-1F0\n", 1, "cell 1 (\"-1F0\"): " GRAMMAR},
    {"+1F0\n", 1, "cell 1 (\"+1F0\"): " GRAMMAR},
    {"1.0F0\n", 1, "cell 1 (\"1.0F0\"): " GRAMMAR},
    {"0 F0\n", 1, "cell 1 (\"0 F0\"): " GRAMMAR},
    {"0F0;0F1\n", 1,
     "cell 1 (\"0F0;0F1\"): ';0F1' after the action; nothing may follow it"},
    {"None\n", 1, "cell 1 (\"None\"): " GRAMMAR},
    {"\xef\xbb\xbf"
     "0F0\n",
     1, "cell 1 (\"???0F0\"): " GRAMMAR},
    /* text behind an action */
    {"0F0junk\n", 1,
     "cell 1 (\"0F0junk\"): 'junk' after the action; nothing may follow it"},
    {"0F-1\n", 1, "cell 1 (\"0F-1\"): '-1' after the action; nothing may follow it"},
    {"0F1.5\n", 1, "cell 1 (\"0F1.5\"): '.5' after the action; nothing may follow it"},
    {"0F1e3\n", 1, "cell 1 (\"0F1e3\"): 'e3' after the action; nothing may follow it"},
    {"0F 1\n", 1, "cell 1 (\"0F 1\"): ' 1' after the action; nothing may follow it"},
    {"0F0 0F1\n", 1,
     "cell 1 (\"0F0 0F1\"): ' 0F1' after the action; nothing may follow it"},
    {"0F0,0UNSHARDx\n", 1,
     "cell 2 (\"0UNSHARDx\"): 'x' after the action; nothing may follow it"},
    /* a line end of old; what is shown is printable */
    {"0F0\r1F0\n", 1,
     "cell 1 (\"0F0?1F0\"): '?1F0' after the action; nothing may follow it"},
    {"0F0\r\r\n", 1, "cell 1 (\"0F0?\"): '?' after the action; nothing may follow it"},
    {"0F0\x1b[31m\n", 1,
     "cell 1 (\"0F0?[31m\"): '?[31m' after the action; nothing may follow it"},
    {"0F0\xc3\xa9\n", 1,
     "cell 1 (\"0F0??\"): '?"
     "?' after the action; nothing may follow it"},
    /* the microbatch */
    {"0F0,0B\n", 1, "cell 2 (\"0B\"): no microbatch after B; " GRAMMAR},
    {"0SEND_F\n", 1, "cell 1 (\"0SEND_F\"): no microbatch after SEND_F; " GRAMMAR},
    {"0F0,0UNSHARD3\n", 1, "cell 2 (\"0UNSHARD3\"): UNSHARD takes no microbatch"},
    {"0F0,0REDUCE_GRAD0\n", 1,
     "cell 2 (\"0REDUCE_GRAD0\"): REDUCE_GRAD takes no microbatch"},
    /* two dialects at once */
    {"0F0,0I0,0W0,0F1,0BW1\n", 0,
     "has both I, of the present dialect, and BW, of the one from before November "
     "2024"},
    {"0F0\n2BW\n", 2, "cell 1 (\"2BW\"): no microbatch after B; " GRAMMAR},
    /* quotes */
    {"\"0F0\",0B0\n", 1,
     "cell 1 (\"\"0F0\"\"): quoted; cells are written without quotes"},
    {"0F0,\"\"\n", 1, "cell 2 (\"\"\"\"): quoted; cells are written without quotes"},
    {"'0F0'\n", 1, "cell 1 (\"'0F0'\"): " GRAMMAR},
    /* pairs */
    {"0OVERLAP_F_B0\n", 1,
     "cell 1 (\"0OVERLAP_F_B0\"): OVERLAP_F_B stands behind a pair only, as in "
     "(5F3;2B1)OVERLAP_F_B"},
    {"(0F0;0B0\n", 1,
     "cell 1 (\"(0F0;0B0\"): expected a pair such as (5F3;2B1)OVERLAP_F_B"},
    {"(0F0)OVERLAP_F_B\n", 1,
     "cell 1 (\"(0F0)OVERLAP_F_B\"): expected a pair such as (5F3;2B1)OVERLAP_F_B"},
    {"(0F0)OVERLAP_F_B;\n", 1,
     "cell 1 (\"(0F0)OVERLAP_F_B;\"): expected a pair such as (5F3;2B1)OVERLAP_F_B"},
    {"(\n", 1, "cell 1 (\"(\"): expected a pair such as (5F3;2B1)OVERLAP_F_B"},
    {"()\n", 1, "cell 1 (\"()\"): expected a pair such as (5F3;2B1)OVERLAP_F_B"},
    {"(0F0;0B1)\n", 1,
     "cell 1 (\"(0F0;0B1)\"): '' behind the pair; expected OVERLAP_F_B"},
    {"(0F0;0B1)OVERLAP\n", 1,
     "cell 1 (\"(0F0;0B1)OVERLAP\"): 'OVERLAP' behind the pair; expected OVERLAP_F_B"},
    {"(0F0;0B1)OVERLAP_F_B2\n", 1,
     "cell 1 (\"(0F0;0B1)OVERLAP_F_B2\"): 'OVERLAP_F_B2' behind the pair; expected "
     "OVERLAP_F_B"},
    {"(0F0;0B1)\x1b[0m\n", 1,
     "cell 1 (\"(0F0;0B1)?[0m\"): '?[0m' behind the pair; expected OVERLAP_F_B"},
    {"(0F0;0B1;0F2)OVERLAP_F_B\n", 1,
     "cell 1 (\"(0F0;0B1;0F2)OVERLAP_F_B\"): a pair has two actions"},
    {"(0F0;0W1)OVERLAP_F_B\n", 1,
     "cell 1 (\"(0F0;0W1)OVERLAP_F_B\"): a pair is made of F, B and I, not of W"},
    {"(0UNSHARD;0B1)OVERLAP_F_B\n", 1,
     "cell 1 (\"(0UNSHARD;0B1)OVERLAP_F_B\"): a pair is made of F, B and I, not of "
     "UNSHARD"},
    {"(0F0;)OVERLAP_F_B\n", 1, "cell 1 (\"(0F0;)OVERLAP_F_B\"): " GRAMMAR},
    {"((0F0;0B1);0F2)OVERLAP_F_B\n", 1,
     "cell 1 (\"((0F0;0B1);0F2)OVERLAP_F_B\"): ';0F2)OVERLAP_F_B' behind the pair; "
     "expected "
     "OVERLAP_F_B"},
    {"(0F0,0B1)OVERLAP_F_B\n", 1,
     "cell 1 (\"(0F0\"): expected a pair such as (5F3;2B1)OVERLAP_F_B"},
    /* ids */
    {"0F0\n65535F0\n", 2, "cell 1 (\"65535F0\"): stage 65535; ids go up to 65534"},
    {"65534F0\n", 1,
     "ids up to stage 65534 and microbatch 0 in only 1 actions; some are missing"},
    {"0F0,0F1000\n", 1,
     "ids up to stage 0 and microbatch 1000 in only 2 actions; some are missing"},
    {"0F0,500F0\n0F500\n", 1,
     "ids up to stage 500 and microbatch 500 in only 3 actions; some are missing"},
    {"0F2147483646\n", 1,
     "ids up to stage 0 and microbatch 2147483646 in only 1 actions; some are missing"},
    /* a long cell is shown in part */
    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeee\n", 1,
     "cell 1 (\"aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd...\"): " GRAMMAR},
};

START_TEST(texts_that_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const char *text = refused[_i].text;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "dir/t.csv", text, strlen(text), NULL,
                                            &schedule, &err),
                     PST_EFORMAT);
    assert_error(&err, PST_EFORMAT, "dir/t.csv", refused[_i].line, refused[_i].message);
    ck_assert_ptr_null(schedule);
}
END_TEST

/* The same text with LF and with CRLF is refused with the same words. */
START_TEST(crlf_is_refused_alike)
{
    pst_error lf = PST_ERROR_INIT, crlf = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const char *a = "0F0\n1F0,1Fx\n", *b = "0F0\r\n1F0,1Fx\r\n";
    pst_schedule_parse_csv(NULL, "t.csv", a, strlen(a), NULL, &schedule, &lf);
    pst_schedule_parse_csv(NULL, "t.csv", b, strlen(b), NULL, &schedule, &crlf);
    assert_error(&crlf, PST_EFORMAT, lf.file, lf.line, lf.text);
    ck_assert_int_eq(crlf.line, 2);
}
END_TEST

static const struct {
    const char *text;
    size_t bytes;
    const char *message;
} with_nul[] = {
    {"\0", 1, "cell 1 (\"?\"): " GRAMMAR},
    {"0\0F0", 4, "cell 1 (\"0?F0\"): " GRAMMAR},
    {"0F\0"
     "0",
     4, "cell 1 (\"0F?0\"): '?0' after the action; nothing may follow it"},
    {"0F0\0", 4, "cell 1 (\"0F0?\"): '?' after the action; nothing may follow it"},
    {"0F0,\0,0B0", 9, "cell 2 (\"?\"): " GRAMMAR},
    {"(0F0;0B1)\0", 10,
     "cell 1 (\"(0F0;0B1)?\"): '?' behind the pair; expected OVERLAP_F_B"},
};

START_TEST(nul_bytes_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", with_nul[_i].text,
                                            with_nul[_i].bytes, NULL, &schedule, &err),
                     PST_EFORMAT);
    assert_error(&err, PST_EFORMAT, "t.csv", 1, with_nul[_i].message);
}
END_TEST

/* Beyond any id: refused, whatever the number is shown as. */
static const char *const huge[] = {
    "99999999999999999999999999F0\n",
    "0F99999999999999999999999999\n",
    "0F2147483647\n",
    "0F2147483648\n",
    "0F4294967295\n",
    "0F4294967296\n",
    "4294967296F0\n",
    "65536F0\n",
    "0F18446744073709551616\n",
};

START_TEST(huge_numbers_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", huge[_i], strlen(huge[_i]),
                                            NULL, &schedule, &err),
                     PST_EFORMAT);
    ck_assert_str_eq(err.file, "t.csv");
    ck_assert_int_eq(err.line, 1);
    ck_assert_ptr_null(schedule);
}
END_TEST

/* No microbatch at all: not a number below zero in a message. */
START_TEST(only_cells_without_a_microbatch)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const char *text = "0UNSHARD\n";
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), NULL,
                                            &schedule, &err),
                     PST_EFORMAT);
    ck_assert_str_eq(err.file, "t.csv");
    ck_assert_msg(strstr(err.text, "-1") == NULL, "%s", err.text);
}
END_TEST

START_TEST(too_many_lines)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    enum { MOST = 65535 };
    size_t bytes = 3 + MOST; /* 0F0 and so many line ends                      */
    char *text = pst_allocate(NULL, bytes + 1);
    memset(text, '\n', bytes + 1);
    memcpy(text, "0F0", 3);
    ck_assert_int_eq(
        pst_schedule_parse_csv(NULL, "t.csv", text, bytes, NULL, &schedule, &err),
        PST_OK);
    ck_assert_int_eq(pst_schedule_ranks(schedule), MOST);
    pst_schedule_destroy(schedule);
    schedule = NULL;
    ck_assert_int_eq(
        pst_schedule_parse_csv(NULL, "t.csv", text, bytes + 1, NULL, &schedule, &err),
        PST_EFORMAT);
    assert_error(&err, PST_EFORMAT, "t.csv", MOST + 1,
                 "more than 65535 lines; each line is a rank");
    ck_assert_ptr_null(schedule);
    pst_release(NULL, text);
}
END_TEST

/* ---- dialects and leniency ---------------------------------------------- */

static const struct {
    const char *text;
    pst_csv_dialect dialect;
    const char *row;
} dialects[] = {
    {"0F0,0B0,0W0,0F1,0BW1\n", PST_CSV_AUTO, "0F0 0I0 0W0 0F1 0B1"},
    {"0F0,0B0,0W0\n", PST_CSV_AUTO, "0F0 0I0 0W0"},
    {"0F0,0BW0\n", PST_CSV_OLD, "0F0 0B0"},
    {"0F0,0B0\n", PST_CSV_AUTO, "0F0 0B0"},
    {"0F0,0B0\n", PST_CSV_OLD, "0F0 0I0"},
    {"0F0,0B0,0W0\n", PST_CSV_NEW, "0F0 0B0 0W0"},
};

START_TEST(old_files_mean_what_they_meant)
{
    const pst_csv_options options = {.dialect = dialects[_i].dialect};
    char row[ROW_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_schedule_parse_csv(NULL, "t.csv", dialects[_i].text, strlen(dialects[_i].text),
                           &options, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    ck_assert_str_eq(row_text(schedule, 0, row), dialects[_i].row);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(new_files_have_no_bw)
{
    const pst_csv_options options = {.dialect = PST_CSV_NEW};
    const char *text = "0F0,0BW0\n";
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), &options,
                                            &schedule, &err),
                     PST_EFORMAT);
    assert_error(&err, PST_EFORMAT, "t.csv", 1, "cell 2 (\"0BW0\"): " OLD_DIALECT);
}
END_TEST

static int warnings;

static void count_warning(void *user, pst_log_level level, const char *text)
{
    ck_assert_int_eq(level, PST_LOG_WARNING);
    ck_assert_str_eq(text, user);
    warnings++;
}

static const struct {
    const char *text;
    const char *row;
    char warning[96];
} lenient[] = {
    {"0F0junk,0B0\n", "0F0 0B0",
     "t.csv:1: cell 1: 'junk' is ignored, as PyTorch's loader does"},
    {"0F0,0B0 x\n", "0F0 0B0",
     "t.csv:1: cell 2: ' x' is ignored, as PyTorch's loader does"},
    {"\"0F0\",0B0\n", "0F0 0B0", ""},
};

START_TEST(leniency_says_what_it_ignores)
{
    const pst_csv_options options = {.lenient = 1};
    const pst_env env = {.log = count_warning, .user = (void *)lenient[_i].warning};
    char row[ROW_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    warnings = 0;
    pst_schedule_parse_csv(&env, "t.csv", lenient[_i].text, strlen(lenient[_i].text),
                           &options, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    ck_assert_str_eq(row_text(schedule, 0, row), lenient[_i].row);
    ck_assert_int_eq(warnings, lenient[_i].warning[0] != 0);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(microbatches_that_were_asked_for)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const char *text = "0F0,0F1\n1F0,1F1\n";
    const pst_csv_options two = {.microbatches = 2}, three = {.microbatches = 3};
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), &two,
                                            &schedule, &err),
                     PST_OK);
    pst_schedule_destroy(schedule);
    schedule = NULL;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), &three,
                                            &schedule, &err),
                     PST_EFORMAT);
    assert_error(&err, PST_EFORMAT, "t.csv", 0, "has 2 microbatches; 3 were asked for");
    ck_assert_ptr_null(schedule);
}
END_TEST

/* ---- files -------------------------------------------------------------- */

static char file[PATH_SIZE];

static void set_up(void)
{
    make_folder();
    in_folder("a.csv", file);
}

static void write_list(const pst_schedule *schedule)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_write_csv(NULL, schedule, file, &err);
    ck_assert_msg(err.status == PST_OK, "%s", err.text);
}

static pst_schedule *read_list(void)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_schedule_read_csv(NULL, file, NULL, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s:%d: %s", err.file, err.line, err.text);
    return schedule;
}

START_TEST(generated_lists_come_back)
{
    for (int p = 1; p <= 5; p++)
        for (int m = 1; m <= 7; m++) {
            pst_schedule *schedule;
            pst_shape shape = {.ranks = p, .microbatches = m};
            ck_assert_int_eq(pst_schedule_create(NULL, _i == 0 ? "gpipe" : "1f1b",
                                                 &shape, &schedule, NULL),
                             PST_OK);
            write_list(schedule);
            pst_schedule *again = read_list();
            assert_same_list(again, schedule);
            pst_schedule_destroy(again);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

static const char *const round_trips[] = {
    "0F0,0B0\n",
    "0F0,0B0\n\n1F0,1B0\n",
    "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
    "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n",
    "(5F3;2B1)OVERLAP_F_B,0F0,(1I0;1F1)OVERLAP_F_B\n",
    "(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B\n",
};

START_TEST(texts_come_back)
{
    pst_schedule *schedule = parse(round_trips[_i]);
    write_list(schedule);
    assert_file(file, round_trips[_i]);
    pst_schedule *again = read_list();
    assert_same_list(again, schedule);
    ck_assert_str_eq(pst_schedule_file(again), file);
    pst_schedule_destroy(again);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(idle_cells_are_not_written)
{
    pst_schedule *schedule = parse(",0F0,,0B0,\r\n,,\r\n");
    write_list(schedule);
    assert_file(file, "0F0,0B0\n\n");
    pst_schedule_destroy(schedule);
}
END_TEST

/* A listing with idle cells and one with messages, from PyTorch and DeepSpeed. */
START_TEST(data_files_come_back)
{
    static const char *const names[] = {"deepspeed-1f1b_p4_m7_v1.csv",
                                        "comms/pytorch-1f1b_p4_m8_v1_sendrecv.csv"};
    pst_schedule *schedule = read_data(names[_i]);
    write_list(schedule);
    pst_schedule *again = read_list();
    assert_same_list(again, schedule);
    pst_schedule_destroy(again);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(a_malformed_file_is_named)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    put_file(file, "0F0,0B0\r\n1F0,,1C0\r\n");
    ck_assert_int_eq(pst_schedule_read_csv(NULL, file, NULL, &schedule, &err),
                     PST_EFORMAT);
    file[sizeof err.file - 1] = 0;
    assert_error(&err, PST_EFORMAT, file, 2, "cell 3 (\"1C0\"): " GRAMMAR);
    ck_assert_ptr_null(schedule);
}
END_TEST

START_TEST(a_missing_file)
{
    char text[2 * PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_read_csv(NULL, file, NULL, &schedule, &err), PST_EIO);
    snprintf(text, sizeof text, "%s: %s", file, strerror(ENOENT));
    assert_error(&err, PST_EIO, "", 0, text);
}
END_TEST

START_TEST(a_folder_that_is_not_there)
{
    char path[PATH_SIZE], text[2 * PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse("0F0\n");
    in_folder("none/a.csv", path);
    ck_assert_int_eq(pst_schedule_write_csv(NULL, schedule, path, &err), PST_EIO);
    snprintf(text, sizeof text, "%s: %s", path, strerror(ENOENT));
    assert_error(&err, PST_EIO, "", 0, text);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Long enough that the disk is found full before the end. */
START_TEST(a_full_disk)
{
    char text[256];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule;
    pst_shape shape = {.ranks = 2, .microbatches = _i == 0 ? 1 : 20000};
    if (access("/dev/full", W_OK) != 0)
        return;
    ck_assert_int_eq(pst_schedule_create(NULL, "gpipe", &shape, &schedule, NULL),
                     PST_OK);
    ck_assert_int_eq(pst_schedule_write_csv(NULL, schedule, "/dev/full", &err),
                     PST_EIO);
    snprintf(text, sizeof text, "/dev/full: %s", strerror(ENOSPC));
    assert_error(&err, PST_EIO, "", 0, text);
    pst_schedule_destroy(schedule);
}
END_TEST

static pst_status write_and_read(const pst_env *env, pst_error *err)
{
    pst_schedule *schedule;
    const char *text = "0F0,,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n";
    pst_status status =
        pst_schedule_parse_csv(env, "t.csv", text, strlen(text), NULL, &schedule, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_write_csv(env, schedule, file, err);
    pst_schedule_destroy(schedule);
    if (status == PST_OK)
        status = pst_schedule_read_csv(env, file, NULL, &schedule, err);
    if (status == PST_OK)
        pst_schedule_destroy(schedule);
    return status;
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
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
    }
    ck_assert_int_gt(at, 15);
}
END_TEST

static void add_files(Suite *suite)
{
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, set_up, remove_folder);
    tcase_add_loop_test(files, generated_lists_come_back, 0, 2);
    tcase_add_loop_test(files, texts_come_back, 0,
                        sizeof round_trips / sizeof *round_trips);
    tcase_add_test(files, idle_cells_are_not_written);
    tcase_add_loop_test(files, data_files_come_back, 0, 2);
    tcase_add_test(files, a_malformed_file_is_named);
    tcase_add_test(files, a_missing_file);
    tcase_add_test(files, a_folder_that_is_not_there);
    tcase_add_loop_test(files, a_full_disk, 0, 2);
    tcase_add_test(files, each_allocation_may_fail);
    suite_add_tcase(suite, files);
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("csv");
    TCase *good = tcase_create("read");
    tcase_add_loop_test(good, texts_that_are_read, 0,
                        sizeof read_texts / sizeof *read_texts);
    tcase_add_test(good, cells_are_numbered_with_idle_ones);
    tcase_add_test(good, operations_without_a_microbatch);
    tcase_add_test(good, the_text_need_not_end_in_zero);
    suite_add_tcase(suite, good);

    TCase *bad = tcase_create("refused");
    tcase_add_loop_test(bad, texts_that_are_refused, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(bad, crlf_is_refused_alike);
    tcase_add_loop_test(bad, nul_bytes_are_refused, 0,
                        sizeof with_nul / sizeof *with_nul);
    tcase_add_loop_test(bad, huge_numbers_are_refused, 0, sizeof huge / sizeof *huge);
    tcase_add_test(bad, only_cells_without_a_microbatch);
    tcase_add_test(bad, too_many_lines);
    tcase_add_test(bad, microbatches_that_were_asked_for);
    tcase_add_loop_test(bad, old_files_mean_what_they_meant, 0,
                        sizeof dialects / sizeof *dialects);
    tcase_add_test(bad, new_files_have_no_bw);
    tcase_add_loop_test(bad, leniency_says_what_it_ignores, 0,
                        sizeof lenient / sizeof *lenient);
    suite_add_tcase(suite, bad);
    add_files(suite);
    return suite;
}
