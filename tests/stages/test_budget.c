/* SPDX-License-Identifier: BSD-3-Clause */
/* test_budget.c - CPU quotas of control groups, from files in a folder of our own. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/pipeline.h>

#include "stages/budget.h"
#include "stages/thread.h"
#include "tests/suite.h"

static char root[64];

/* What put_file() made, for the end. */
static char made[64][512];
static int made_count;

static void make_root(void)
{
    snprintf(root, sizeof root, "budget-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    made_count = 0;
}

static void remove_root(void)
{
    while (made_count > 0)
        ck_assert_int_eq(remove(made[--made_count]), 0);
    ck_assert_int_eq(rmdir(root), 0);
}

static void make_folders(char *path)
{
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(path, 0700) == 0)
            snprintf(made[made_count++], sizeof made[0], "%s", path);
        else
            ck_assert_int_eq(errno, EEXIST);
        *slash = '/';
    }
}

/* A file below root, and the folders that it stands in. */
static void put_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    make_folders(path);
    if (access(path, F_OK) != 0)
        snprintf(made[made_count++], sizeof made[0], "%s", path);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void budget_is(int allowed, int wanted)
{
    pst_cpu_budget_info info;
    pst__cpu_budget_at(root, allowed, &info);
    ck_assert_int_eq(info.cpus, wanted);
    ck_assert_int_eq(info.allowed, allowed);
    ck_assert((info.quota > 0) == (info.quota_path[0] != '\0'));
}

START_TEST(test_no_files)
{
    budget_is(8, 8);
    budget_is(1, 1);
    budget_is(0, 1);
}
END_TEST

START_TEST(test_version2)
{
    put_file("proc/self/cgroup", "0::/slice/job\n");
    budget_is(8, 8);
    put_file("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
    budget_is(8, 8);
    put_file("sys/fs/cgroup/slice/job/cpu.max", "300000 100000\n");
    budget_is(8, 3);
    budget_is(2, 2);
    budget_is(0, 3);
    put_file("sys/fs/cgroup/slice/job/cpu.max", "399999 100000\n");
    budget_is(8, 3);
    put_file("sys/fs/cgroup/slice/job/cpu.max", "5000 100000\n");
    budget_is(8, 1);
    put_file("sys/fs/cgroup/slice/job/cpu.max", "100000 50000");
    budget_is(8, 2);
}
END_TEST

START_TEST(test_version2_groups_above)
{
    put_file("proc/self/cgroup", "0::/slice/job\n");
    put_file("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
    put_file("sys/fs/cgroup/slice/cpu.max", "400000 100000\n");
    budget_is(8, 4);
    put_file("sys/fs/cgroup/slice/job/cpu.max", "500000 100000\n");
    budget_is(8, 4);
    put_file("sys/fs/cgroup/cpu.max", "200000 100000\n");
    budget_is(8, 2);
}
END_TEST

/* In a container the group's path may be the host's, and only the mount is there. */
START_TEST(test_version2_path_of_the_host)
{
    put_file("proc/self/cgroup", "0::/../../slice/job\n");
    put_file("sys/fs/cgroup/cpu.max", "600000 100000\n");
    budget_is(8, 6);
    put_file("proc/self/cgroup", "0::/\n");
    budget_is(8, 6);
}
END_TEST

START_TEST(test_version2_nonsense)
{
    static const char *const texts[] = {
        "",      "\n",           "100000\n", "-1 100000\n", "0 0\n",      "200000 0",
        "max\n", "many of them", "1 -5",     "nan 1",       "1e300 1e-9", "inf 1"};
    put_file("proc/self/cgroup", "0::/job\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_file("sys/fs/cgroup/job/cpu.max", texts[i]);
        budget_is(8, 8);
    }
}
END_TEST

START_TEST(test_version1)
{
    put_file(
        "proc/self/cgroup",
        "12:memory:/job\n4:cpu,cpuacct:/job\n3:cpuset:/job\n1:name=systemd:/job\n");
    budget_is(8, 8);
    put_file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    budget_is(8, 8);
    put_file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    budget_is(8, 8);
    put_file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    budget_is(8, 2);
    put_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
    put_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    budget_is(8, 1);
}
END_TEST

START_TEST(test_version1_mounts)
{
    static const char *const folders[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu"};
    char name[128];
    put_file("proc/self/cgroup", "4:cpuacct,cpu:/job\n");
    snprintf(name, sizeof name, "sys/fs/cgroup/%s/job/cpu.cfs_period_us", folders[_i]);
    put_file(name, "100000\n");
    snprintf(name, sizeof name, "sys/fs/cgroup/%s/job/cpu.cfs_quota_us", folders[_i]);
    put_file(name, "500000\n");
    budget_is(8, 5);
}
END_TEST

/* Controllers whose names only begin or end as "cpu" does. */
START_TEST(test_version1_other_controllers)
{
    put_file("proc/self/cgroup", "4:cpuset,cpuacct:/job\n");
    put_file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    put_file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "500000\n");
    budget_is(8, 8);
}
END_TEST

START_TEST(test_both_versions)
{
    put_file("proc/self/cgroup", "4:cpu:/job\n0::/job\n");
    put_file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    put_file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "500000\n");
    put_file("sys/fs/cgroup/unified/job/cpu.max", "300000 100000\n");
    budget_is(8, 3);
}
END_TEST

START_TEST(test_strange_lines)
{
    put_file("proc/self/cgroup", "\nno colon\n0:one\n0::\n0::/job\n");
    put_file("sys/fs/cgroup/job/cpu.max", "700000 100000\n");
    budget_is(8, 7);
}
END_TEST

/* A path longer than any buffer: the mount still counts. */
START_TEST(test_long_path)
{
    static char text[900];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "0::/", 4);
    put_file("proc/self/cgroup", text);
    put_file("sys/fs/cgroup/cpu.max", "700000 100000\n");
    budget_is(8, 7);
}
END_TEST

/* Six folders deep, and the least quota anywhere on the way is the one that counts. */
static void deep_group(const char *mount, const char *quota, const char *period)
{
    static const char *const above[] = {"a/b/c/d/e/f", "a/b/c/d/e", "a/b/c/d", "a/b/c",
                                        "a/b",         "a",         "."};
    const size_t count = sizeof above / sizeof above[0];
    char name[256];
    for (size_t i = 0; i < count; i++) {
        char text[64];
        if (period) {
            snprintf(name, sizeof name, "%s/%s/%s", mount, above[i], period);
            put_file(name, "100000\n");
        }
        snprintf(name, sizeof name, "%s/%s/%s", mount, above[i], quota);
        snprintf(text, sizeof text, "%zu00000%s\n", 9 - i, period ? "" : " 100000");
        put_file(name, text);
        budget_is(64, (int)(9 - i));
    }
}

START_TEST(test_every_ancestor)
{
    put_file("proc/self/cgroup",
             _i ? "0::/a/b/c/d/e/f\n" : "7:cpuset:/a\n3:cpu,cpuacct:/a/b/c/d/e/f\n");
    if (_i)
        deep_group("sys/fs/cgroup", "cpu.max", NULL);
    else
        deep_group("sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us",
                   "cpu.cfs_period_us");
}
END_TEST

START_TEST(test_where_it_comes_from)
{
    char path[256];
    pst_cpu_budget_info info;
    put_file("proc/self/cgroup", "0::/slice/job\n");
    put_file("sys/fs/cgroup/slice/job/cpu.max", "300000 100000\n");
    put_file("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
    pst__cpu_budget_at(root, 8, &info);
    ck_assert_int_eq(info.cpus, 1);
    ck_assert_int_eq(info.allowed, 8);
    ck_assert(info.quota == 1.5);
    snprintf(path, sizeof path, "%s/sys/fs/cgroup/slice/cpu.max", root);
    ck_assert_str_eq(info.quota_path, path);
}
END_TEST

START_TEST(test_this_process)
{
    ck_assert_int_ge(pst_cpu_budget(), 1);
    ck_assert_int_le(pst_cpu_budget(), pst__thread_cpu_count());
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("budget");
    TCase *all = tcase_create("budget");
    tcase_set_timeout(all, 120);
    tcase_add_checked_fixture(all, make_root, remove_root);
    tcase_add_test(all, test_no_files);
    tcase_add_test(all, test_version2);
    tcase_add_test(all, test_version2_groups_above);
    tcase_add_test(all, test_version2_path_of_the_host);
    tcase_add_test(all, test_version2_nonsense);
    tcase_add_test(all, test_version1);
    tcase_add_loop_test(all, test_version1_mounts, 0, 3);
    tcase_add_test(all, test_version1_other_controllers);
    tcase_add_test(all, test_both_versions);
    tcase_add_test(all, test_strange_lines);
    tcase_add_test(all, test_long_path);
    tcase_add_loop_test(all, test_every_ancestor, 0, 2);
    tcase_add_test(all, test_where_it_comes_from);
    tcase_add_test(all, test_this_process);
    suite_add_tcase(suite, all);
    return suite;
}
