/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_listings.c - listings of other programs (tests/reference): read, found valid,
 * simulated to the figures of INDEX.csv, and made again by our generators.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/registry.h>
#include <penstock/schedule_csv.h>
#include <penstock/simulate.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

enum { MOST_LISTINGS = 600, MOST_STAGES = 64 };

/* What stands in a row of INDEX.csv. */
typedef struct listing {
    char file[80], source[48], peaks[96], note[96];
    int ranks, microbatches, chunks, max_queue_depth;
    double makespan, longest_rank, busy_most, busy_least, skewed;
} listing;

static listing listings[MOST_LISTINGS];
static int listing_count;

/* The next field of a line, without quotes; *rest goes on behind its comma. */
static char *field(char **rest)
{
    char *start = *rest, *end = start;
    if (*start == '"') {
        end = strchr(++start, '"');
        *end++ = 0;
    }
    end += strcspn(end, ",\n");
    *rest = *end == 0 ? end : end + 1;
    *end = 0;
    return start;
}

static void read_listing(char *line, listing *l)
{
    *l = (listing){.ranks = 0};
    snprintf(l->file, sizeof l->file, "%s", field(&line));
    snprintf(l->source, sizeof l->source, "%s", field(&line));
    l->ranks = atoi(field(&line));
    l->microbatches = atoi(field(&line));
    l->chunks = atoi(field(&line));
    field(&line); /* ops */
    l->makespan = atof(field(&line));
    l->longest_rank = atof(field(&line));
    l->busy_most = atof(field(&line));
    l->busy_least = atof(field(&line));
    field(&line); /* the bubbles follow from these */
    field(&line);
    snprintf(l->peaks, sizeof l->peaks, "%s", field(&line));
    l->skewed = atof(field(&line));
    l->max_queue_depth = atoi(field(&line));
    field(&line);
    snprintf(l->note, sizeof l->note, "%s", field(&line));
}

static void read_index(void)
{
    char path[PATH_SIZE], line[512];
    FILE *file = fopen(data_path("INDEX.csv", path), "r");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    for (listing_count = 0; fgets(line, sizeof line, file) != NULL; listing_count++) {
        ck_assert_int_lt(listing_count, MOST_LISTINGS);
        read_listing(line, &listings[listing_count]);
    }
    fclose(file);
    ck_assert_int_ge(listing_count, 549);
}

static int starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Two replicas, or slices, which the files themselves do not show. */
static pst_schedule *read_file(const listing *l)
{
    char path[PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_csv_options options = {.microbatches = l->microbatches};
    if (strcmp(l->source, "deepseek-dualpipe") == 0 ||
        starts_with(l->source, "chimera"))
        options.replicas = 2;
    if (starts_with(l->source, "sailsg-seq1f1b-k"))
        options.slices = atoi(l->source + strlen("sailsg-seq1f1b-k"));
    if (l->note[0] != 0)
        options.microbatches = 0;
    pst_schedule_read_csv(NULL, data_path(l->file, path), &options, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s:%d: %s", err.file, err.line, err.text);
    return schedule;
}

static pst_simulation *simulate(const pst_schedule *schedule, double forward,
                                double input, double weight)
{
    double f[MOST_STAGES], i[MOST_STAGES], w[MOST_STAGES];
    pst_error err = PST_ERROR_INIT;
    pst_simulation *simulation = NULL;
    ck_assert_int_le(pst_schedule_stages(schedule), MOST_STAGES);
    for (int stage = 0; stage < MOST_STAGES; stage++)
        f[stage] = forward, i[stage] = input, w[stage] = weight;
    const pst_costs costs = {.forward = f, .backward_input = i, .backward_weight = w};
    pst_simulate(NULL, schedule, &costs, &simulation, &err);
    ck_assert_msg(simulation != NULL, "%s", err.text);
    return simulation;
}

static void assert_figures(const pst_simulation *s, const listing *l)
{
    char peaks[sizeof l->peaks];
    double most = 0, least = 1e30;
    size_t used = 0;
    for (int rank = 0; rank < s->ranks; rank++) {
        used += (size_t)snprintf(peaks + used, sizeof peaks - used, "%s%d",
                                 rank > 0 ? " " : "", s->peak_activations[rank]);
        most = s->busy[rank] > most ? s->busy[rank] : most;
        least = s->busy[rank] < least ? s->busy[rank] : least;
    }
    ck_assert_msg(strcmp(peaks, l->peaks) == 0, "%s: peaks %s, due %s", l->file, peaks,
                  l->peaks);
    ck_assert_msg(s->makespan == l->makespan && s->longest_rank == l->longest_rank &&
                      most == l->busy_most && least == l->busy_least &&
                      s->max_queue_depth == l->max_queue_depth,
                  "%s: %g %g %g %g %d", l->file, s->makespan, s->longest_rank, most,
                  least, s->max_queue_depth);
}

START_TEST(files_have_their_figures)
{
    read_index();
    for (int i = 0; i < listing_count; i++) {
        const listing *l = &listings[i];
        if (l->note[0] != 0)
            continue;
        pst_error err = PST_ERROR_INIT;
        pst_schedule *schedule = read_file(l);
        ck_assert_msg(pst_schedule_check(NULL, schedule, &err) == PST_OK, "%s: %s",
                      l->file, err.text);
        ck_assert_int_eq(pst_schedule_total_microbatches(schedule), l->microbatches);
        pst_simulation *even = simulate(schedule, 1, 1, 1);
        pst_simulation *skewed = simulate(schedule, 1, 3, 2);
        assert_figures(even, l);
        ck_assert_msg(skewed->makespan == l->skewed, "%s: %g", l->file,
                      skewed->makespan);
        pst_simulation_destroy(skewed);
        pst_simulation_destroy(even);
        pst_schedule_destroy(schedule);
    }
}
END_TEST

START_TEST(the_known_bad_one_is_refused)
{
    const listing bad = {.file = "pytorch-1f1b-ir-known-bad_p4_m8_v1.csv",
                         .note = "bad"};
    char path[PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = read_file(&bad);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_ESCHEDULE);
    assert_error(&err, PST_ESCHEDULE, data_path(bad.file, path), 4,
                 "rank 3, cell 2 (3B0): comes before 3F0");
    pst_schedule_destroy(schedule);
}
END_TEST

/* Which schedule and options make which listing, cell by cell. */
static const struct {
    const char *source;
    const char *name;
    pst_shape shape;
} makers[] = {
    {"pytorch-gpipe", "gpipe", {.group = 0}},
    {"torchgpipe-gpipe", "gpipe", {.backward_order = PST_ORDER_DESCENDING}},
    {"pytorch-1f1b", "1f1b", {.group = 0}},
    {"megatron-1f1b", "1f1b", {.group = 0}},
    {"deepspeed-1f1b", "1f1b", {.group = 0}},
    {"sailsg-1f1b", "1f1b", {.group = 0}},
    {"ppviz-1f1boverlap", "eager-1f1b", {.warmup_extra = 1, .pairs = 1}},
    {"megatron-interleaved", "interleaved", {.group = 0}},
    {"sailsg-vpp", "interleaved", {.group = 0}},
    {"pytorch-interleaved1f1b", "interleaved", {.group = 0}},
    {"megatron-interleaved-N3", "interleaved", {.group = 3}},
    {"megatron-interleaved-N4", "interleaved", {.group = 4}},
    {"megatron-interleaved-N8", "interleaved", {.group = 8}},
    {"megatron-interleaved-N3-moeoverlap",
     "interleaved",
     {.group = 3, .warmup_extra = 1}},
    {"megatron-interleaved-N4-moeoverlap",
     "interleaved",
     {.group = 4, .warmup_extra = 1}},
    {"megatron-interleaved-N8-moeoverlap",
     "interleaved",
     {.group = 8, .warmup_extra = 1}},
    {"megatron-interleaved-moeoverlap", "interleaved", {.warmup_extra = 1}},
    {"ppviz-interleaveoverlap", "interleaved", {.warmup_extra = 1, .pairs = 1}},
    {"pytorch-loopedbfs", "looped-bfs", {.group = 0}},
    {"pytorch-interleavedzerobubble", "interleaved-zb", {.group = 0}},
    {"sailsg-zbh1", "zb-h1", {.group = 0}},
    {"ppviz-zb1p", "zb-h1", {.group = 0}},
    {"sailsg-zbh1light", "zb-h1", {.weights = PST_WEIGHTS_LIFO_MERGED}},
    {"sailsg-zbh2", "zb-h2", {.group = 0}},
    {"pytorch-zbvzerobubble", "zb-v", {.group = 0}},
    {"sailsg-zbvhand", "zb-v", {.group = 0}},
    {"pytorch-dualpipev", "dualpipev", {.group = 0}},
    {"deepseek-dualpipev", "dualpipev", {.group = 0}},
    {"deepseek-dualpipe", "dualpipe", {.group = 0}},
    {"chimera-bidirectional", "chimera", {.group = 0}},
    {"sailsg-seq1f1b-k2", "seq1f1b", {.slices = 2}},
    {"sailsg-seq1f1b-k4", "seq1f1b", {.slices = 4}},
    {"sailsg-gis-g1", "gis", {.group = 1}},
    {"sailsg-gis-g2", "gis", {.group = 2}},
    {"sailsg-gis-g4", "gis", {.group = 4}},
};

/* The maker of a listing, or -1. Chimera's beyond m = p are not ours. */
static int maker_of(const listing *l)
{
    if (starts_with(l->source, "chimera") && l->microbatches != l->ranks)
        return -1;
    for (int i = 0; i < (int)(sizeof makers / sizeof *makers); i++)
        if (strcmp(makers[i].source, l->source) == 0)
            return i;
    return -1;
}

START_TEST(listings_are_made_again)
{
    int compared = 0;
    read_index();
    for (int i = 0; i < listing_count; i++) {
        const listing *l = &listings[i];
        const int maker = maker_of(l);
        if (maker < 0)
            continue;
        pst_shape shape = makers[maker].shape;
        shape.ranks = l->ranks;
        shape.microbatches = l->microbatches;
        shape.chunks = l->chunks;
        pst_error err = PST_ERROR_INIT;
        pst_schedule *made = NULL, *wanted = read_file(l);
        pst_schedule_create(NULL, makers[maker].name, &shape, &made, &err);
        ck_assert_msg(made != NULL, "%s: %s", l->file, err.text);
        assert_same_list(made, wanted);
        pst_schedule_destroy(made);
        pst_schedule_destroy(wanted);
        compared++;
    }
    ck_assert_int_ge(compared, 461);
}
END_TEST

/* Kinds that search: not longer than the listing, and no more memory on any rank. */
static const struct {
    const char *source;
    const char *name;
    double limit; /* in units of p; 0: the kind's own                          */
} searchers[] = {
    {"sailsg-zb1p", "zb-1p", 0},   {"sailsg-zb1.5p", "zb-1p", 1.5},
    {"sailsg-zb2p", "zb-2p", 0},   {"sailsg-zbv", "zb-v-auto", 0},
    {"sailsg-vhalf", "v-half", 0}, {"sailsg-vmin", "v-min", 0},
    {"sailsg-1f1bv", "1f1b-v", 0},
};

static int most_held(const pst_simulation *s)
{
    int most = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        if (s->peak_activations[rank] > most)
            most = s->peak_activations[rank];
    return most;
}

static void compare_search(const listing *l, int searcher)
{
    pst_error err = PST_ERROR_INIT;
    const pst_shape shape = {.ranks = l->ranks,
                             .microbatches = l->microbatches,
                             .memory_limit = searchers[searcher].limit * l->ranks};
    pst_schedule *made = NULL, *wanted = read_file(l);
    pst_schedule_create(NULL, searchers[searcher].name, &shape, &made, &err);
    ck_assert_msg(made != NULL, "%s: %s", l->file, err.text);
    pst_simulation *ours = simulate(made, 1, 1, 1), *theirs = simulate(wanted, 1, 1, 1);
    ck_assert_msg(ours->makespan <= theirs->makespan &&
                      ours->longest_rank <= theirs->longest_rank,
                  "%s: makespan %g, theirs %g; longest %g, theirs %g", l->file,
                  ours->makespan, theirs->makespan, ours->longest_rank,
                  theirs->longest_rank);
    ck_assert_msg(most_held(ours) <= most_held(theirs), "%s: holds %d, theirs %d",
                  l->file, most_held(ours), most_held(theirs));
    pst_simulation_destroy(ours);
    pst_simulation_destroy(theirs);
    pst_schedule_destroy(made);
    pst_schedule_destroy(wanted);
}

START_TEST(searched_lists_are_as_good)
{
    int compared = 0;
    read_index();
    for (int i = 0; i < listing_count; i++)
        for (int k = 0; k < (int)(sizeof searchers / sizeof *searchers); k++)
            if (strcmp(listings[i].source, searchers[k].source) == 0) {
                compare_search(&listings[i], k);
                compared++;
            }
    ck_assert_int_ge(compared, 84);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("listings");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 240);
    tcase_add_test(all, files_have_their_figures);
    tcase_add_test(all, the_known_bad_one_is_refused);
    tcase_add_test(all, listings_are_made_again);
    tcase_add_test(all, searched_lists_are_as_good);
    suite_add_tcase(suite, all);
    return suite;
}
