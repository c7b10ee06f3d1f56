/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_explore.c - rings, channels, sleep and wake-up in every way that C11 allows,
 * and what is missed when an order is weaker than it stands.
 *
 * PENSTOCK_EXPLORE=long adds the programs that take minutes, and tries weaker orders
 * with all that take seconds.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite.h"

enum { SKIPPED = 77 }; /* Automake's status for it */

#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define IS_THREAD_SANITIZER
#endif
#endif
#if defined __SANITIZE_THREAD__
#define IS_THREAD_SANITIZER
#endif

#ifdef IS_THREAD_SANITIZER

Suite *pst_test_suite(void)
{
    puts("explore: not under ThreadSanitizer, whose instrumentation it takes itself");
    exit(SKIPPED);
}

#else

#include "tests/stages/explore/litmus.h"
#include "tests/stages/explore/scenarios.h"

static explore_result result;

enum { SCENARIOS = 64 }; /* a bit each */

static explore_scenarios scenario_lists(int which)
{
    return which == 0   ? explore_ring_scenarios()
           : which == 1 ? explore_pipeline_scenarios()
           : which == 2 ? explore_stream_scenarios()
           : which == 3 ? explore_team_scenarios()
                        : (explore_scenarios){NULL, 0};
}

/* Of all lists, one after the other. NULL: there are not so many. */
static const explore_scenario *scenario_at(size_t number)
{
    explore_scenarios list;
    for (int which = 0; (list = scenario_lists(which)).first; which++) {
        if (number < list.count)
            return &list.first[number];
        number -= list.count;
    }
    return NULL;
}

static size_t scenario_count(void)
{
    size_t count = 0;
    while (scenario_at(count))
        count++;
    return count;
}

static bool is_long(void)
{
    const char *how = getenv("PENSTOCK_EXPLORE");
    return how && strcmp(how, "long") == 0;
}

/* The explorer itself. */
START_TEST(test_known_answers)
{
    const explore_litmus *litmus = &explore_litmuses[_i];
    explore_run(&litmus->scenario, &result);
    ck_assert_msg(result.violated == litmus->is_allowed, "%s: %s%s\n%s",
                  litmus->scenario.name,
                  result.violated ? "found what C11 forbids: " : "not found",
                  result.text, result.trace);
}
END_TEST

START_TEST(test_nothing_is_lost)
{
    const explore_scenario *scenario = scenario_at((size_t)_i);
    if (scenario->size == EXPLORE_LONG && !is_long()) {
        printf("explore: %-28s left out\n", scenario->name);
        return;
    }
    explore_run(scenario, &result);
    printf("explore: %-28s %7lu executions, %7lu to their ends, %7lu states, up to %lu "
           "steps\n",
           scenario->name, result.executions, result.complete, result.states,
           result.longest);
    if (result.violated) /* longer than what Check lets through */
        printf("explore: %s: %s\n%s", scenario->name, result.text, result.trace);
    ck_assert_msg(!result.violated, "%s: %s", scenario->name, result.text);
    ck_assert_uint_gt(result.complete, 0);
}
END_TEST

/* ---- weaker orders -------------------------------------------------------------- */

static const char *order_name(memory_order order)
{
    switch (order) {
    case memory_order_relaxed:
        return "relaxed";
    case memory_order_acquire:
        return "acquire";
    case memory_order_release:
        return "release";
    case memory_order_acq_rel:
        return "acq_rel";
    default:
        return "seq_cst";
    }
}

static bool is_rmw(const explore_site *site)
{
    return strcmp(site->operation, "load") != 0 &&
           strcmp(site->operation, "store") != 0;
}

/* What an order of the site can be weakened to, from strong to weak; how many. */
static int weaker(const explore_site *site, int which, memory_order weaker[4])
{
    const memory_order order = site->shipped[which];
    const bool both = is_rmw(site) && which == 0;
    const bool stores = strcmp(site->operation, "store") == 0;
    int count = 0;
    if (order == memory_order_relaxed)
        return 0;
    if (both && order == memory_order_seq_cst)
        weaker[count++] = memory_order_acq_rel;
    if (both && (order == memory_order_seq_cst || order == memory_order_acq_rel)) {
        weaker[count++] = memory_order_acquire;
        weaker[count++] = memory_order_release;
    } else if (order == memory_order_seq_cst) {
        weaker[count++] = stores ? memory_order_release : memory_order_acquire;
    }
    weaker[count++] = memory_order_relaxed;
    return count;
}

/* A weakening that changes nothing. All others must be caught. */
typedef struct redundant {
    const char *function;
    const char *object;
    memory_order order;
    const char *why;
} redundant;

static const redundant redundants[] = {
    {"finish_phase", "&p->finished", memory_order_release,
     "additions of all workers are one release sequence, so who reads the last of them "
     "knows what each has done"},
    {"finish", "&crew->finished", memory_order_release, "as in finish_phase"},
    {"has_ended", "&p->ended", memory_order_relaxed,
     "a worker only leaves; why the run has ended is read when all have finished"},
    {"find_fault", "&p->ended", memory_order_relaxed,
     "a worker that failed has finished; of a cancellation only the word is read"},
    {"find_fault", "&s->ended", memory_order_relaxed,
     "all workers of a stream have finished; of a cancellation only the word is read"},
    {"run_has_ended", "&p->ended", memory_order_relaxed,
     "find_fault() looks at `ended` again"},
    {"run_phase", "&p->finished", memory_order_acquire,
     "the addition to `start` publishes the 0"},
    {"run_phase", "&p->finished", memory_order_release,
     "it goes on the release sequence of a cancellation's bit, and all_finished() "
     "acquires that"},
    {"run_phase", "&p->finished", memory_order_relaxed, "both of these"},
    {NULL, NULL, memory_order_relaxed, NULL},
};

static const redundant *find_redundant(const explore_site *site, memory_order order)
{
    for (const redundant *r = redundants; r->function; r++)
        if (strcmp(r->function, site->function) == 0 &&
            strcmp(r->object, site->object) == 0 && r->order == order)
            return r;
    return NULL;
}

static bool is_shipped(const explore_site *site)
{
    return !strstr(site->file, "tests/stages/");
}

/* Which scenarios use which site, as bits. */
static void find_users(explore_site **sites, size_t count, uint64_t *users)
{
    for (size_t k = 0; scenario_at(k); k++) {
        const explore_size size = scenario_at(k)->size;
        if (size == EXPLORE_LONG || (size == EXPLORE_LARGE && !is_long()))
            continue;
        for (size_t i = 0; i < count; i++)
            sites[i]->uses = 0;
        explore_run(scenario_at(k), &result);
        for (size_t i = 0; i < count; i++)
            users[i] |= (uint64_t)(sites[i]->uses > 0) << k;
    }
}

/* The scenario that misses something, or NULL; `result` tells what. */
static const explore_scenario *find_catcher(explore_site *site, int which,
                                            memory_order order, uint64_t users)
{
    const explore_scenario *catcher = NULL;
    site->order[which] = order;
    for (size_t k = 0; scenario_at(k) && !catcher; k++) {
        if (!(users >> k & 1))
            continue;
        explore_run(scenario_at(k), &result);
        if (result.violated)
            catcher = scenario_at(k);
    }
    site->order[which] = site->shipped[which];
    return catcher;
}

/* False: it is not as the table says. */
static bool weaken(explore_site *site, int which, memory_order order, uint64_t users)
{
    const explore_scenario *catcher = find_catcher(site, which, order, users);
    const redundant *known = find_redundant(site, order);
    printf("explore: %s: %s %s%s, %s -> %s: ", site->function, site->operation,
           site->object, which ? " that fails" : "", order_name(site->shipped[which]),
           order_name(order));
    if (catcher)
        printf("caught by %s (%s)%s\n", catcher->name, result.text,
               known ? " BUT SAID TO BE REDUNDANT" : "");
    else
        printf("%s\n", !users ? "NEVER USED" : known ? known->why : "NOT CAUGHT");
    fflush(stdout);
    return users != 0 && !catcher == !!known;
}

/* ---- nothing is left out -------------------------------------------------- */

/* Uses of atomics in a source file. */
static int uses_in_source(const char *path)
{
    char line[512];
    int count = 0;
    FILE *file = fopen(path, "r");
    ck_assert_msg(file, "%s cannot be read", path);
    while (fgets(line, sizeof line, file))
        for (const char *at = line; (at = strstr(at, "atomic_")); at++)
            count += at[strcspn(at, " (;,")] == '(' &&
                     strncmp(at + strcspn(at, "(") - 8, "explicit", 8) == 0;
    fclose(file);
    return count;
}

static bool is_same_text(const explore_site *a, const explore_site *b)
{
    return a->line == b->line && strcmp(a->file, b->file) == 0 &&
           strcmp(a->object, b->object) == 0 && strcmp(a->operation, b->operation) == 0;
}

/* Sites of stages/`name`; functions of headers have them in more than one object. */
static int sites_of(const char *name)
{
    size_t count;
    int found = 0;
    explore_site **sites = explore_sites(&count);
    for (size_t i = 0; i < count; i++) {
        const char *slash = strrchr(sites[i]->file, '/');
        size_t k = 0;
        while (k < i && !is_same_text(sites[k], sites[i]))
            k++;
        found +=
            is_shipped(sites[i]) && slash && k == i && strcmp(slash + 1, name) == 0;
    }
    return found;
}

START_TEST(test_every_use_is_explored)
{
    const char *top = getenv("srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/stages", top ? top : ".");
    DIR *folder = opendir(path);
    ck_assert_msg(folder, "%s cannot be read", path);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0) ||
            strcmp(entry->d_name, "atomic_valgrind.h") == 0) /* makes, not uses them */
            continue;
        snprintf(path, sizeof path, "%s/stages/%s", top ? top : ".", entry->d_name);
        const int uses = uses_in_source(path);
        const int sites = sites_of(entry->d_name);
        ck_assert_msg(uses == sites, "stages/%s: %d uses of atomics, %d are explored",
                      entry->d_name, uses, sites);
        if (uses > 0)
            printf("explore: stages/%s: %d uses of atomics\n", entry->d_name, uses);
    }
    closedir(folder);
}
END_TEST

START_TEST(test_weaker_orders_are_caught)
{
    size_t count;
    int wrong = 0;
    explore_site **sites = explore_sites(&count);
    ck_assert_uint_le(scenario_count(), SCENARIOS);
    uint64_t *users = calloc(count, sizeof *users);
    ck_assert_ptr_nonnull(users);
    find_users(sites, count, users);
    for (size_t i = 0; i < count; i++) {
        memory_order orders[4];
        const int slots = strcmp(sites[i]->operation, "compare") == 0 ? 2 : 1;
        for (int which = 0; is_shipped(sites[i]) && which < slots; which++) {
            const int weaker_count = weaker(sites[i], which, orders);
            for (int k = 0; k < weaker_count; k++)
                wrong += !weaken(sites[i], which, orders[k], users[i]);
        }
    }
    free(users);
    ck_assert_msg(wrong == 0, "%d weaker orders are not as the table says", wrong);
}
END_TEST

Suite *pst_test_suite(void)
{
    if (!explore_sees_plain_accesses) {
        puts("explore: this compiler cannot show plain accesses (-fsanitize=thread)");
        exit(SKIPPED);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    Suite *suite = suite_create("explore");
    TCase *all = tcase_create("explore");
    tcase_set_timeout(all, 3600);
    tcase_add_loop_test(all, test_known_answers, 0, (int)explore_litmus_count);
    tcase_add_loop_test(all, test_nothing_is_lost, 0, (int)scenario_count());
    tcase_add_test(all, test_every_use_is_explored);
    tcase_add_test(all, test_weaker_orders_are_caught);
    suite_add_tcase(suite, all);
    return suite;
}

#endif
