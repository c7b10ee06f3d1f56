/* SPDX-License-Identifier: BSD-3-Clause */
/* budget.c - the CPU budget, from affinity and from cgroup quotas. */
#include "stages/budget.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stages/thread.h"

enum { PATH_BYTES = 1024, GROUPS_BYTES = 16384 };

/* What a file begins with; all that these have, in their few lines. By hand, since a
 * budget must not depend on whether stdio finds memory. */
static bool read_start(const char *path, char *text, size_t size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;
    if (file < 0)
        return false;
    while (used + 1 < size && (got = read(file, text + used, size - used - 1)) != 0)
        if (got > 0)
            used += (size_t)got;
        else if (errno != EINTR)
            break;
    close(file);
    text[used] = '\0';
    return used > 0;
}

/* The first line of a file, without its newline. */
static bool read_line(const char *path, char *line, size_t size)
{
    const bool got = read_start(path, line, size);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

/* Quota and period in a cgroup's files, `path` being the one that has the quota. */
static bool read_quota(const char *folder, char *path, size_t size, double *cpus)
{
    char period_path[PATH_BYTES + 32];
    char line[128];
    double quota = -1;
    double period = 0;
    snprintf(path, size, "%s/cpu.max", folder);
    if (read_line(path, line, sizeof line)) {
        /* "max 100000" has no number in front, so nothing is read */
        if (sscanf(line, "%lf %lf", &quota, &period) != 2)
            return false;
    } else {
        snprintf(path, size, "%s/cpu.cfs_quota_us", folder);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &quota) != 1)
            return false;
        snprintf(period_path, sizeof period_path, "%s/cpu.cfs_period_us", folder);
        if (!read_line(period_path, line, sizeof line) ||
            sscanf(line, "%lf", &period) != 1)
            return false;
    }
    *cpus = quota / period;
    return quota > 0 && period > 0 && *cpus < INT_MAX;
}

/* Take the quota of one cgroup folder into account. */
static void look_into(const char *folder, pst_cpu_budget_info *info)
{
    char path[PATH_BYTES + 32];
    double cpus;
    if (!read_quota(folder, path, sizeof path, &cpus) ||
        (info->quota > 0 && info->quota <= cpus))
        return;
    info->quota = cpus;
    snprintf(info->quota_path, sizeof info->quota_path, "%.*s",
             (int)sizeof info->quota_path - 1, path);
}

/* All from `mount`/`group` up to `mount`. In a container the group's path may be the
 * host's and absent here: its parents end at the mount all the same. */
static void look_upwards(const char *mount, const char *group,
                         pst_cpu_budget_info *info)
{
    char folder[PATH_BYTES];
    const size_t mount_length = strlen(mount);
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >=
        sizeof folder) {
        look_into(mount, info);
        return;
    }
    for (;;) {
        look_into(folder, info);
        char *slash = strrchr(folder + mount_length, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Does the comma-separated list name the controller "cpu"? */
static bool names_cpu(const char *list, size_t length)
{
    while (length > 0) {
        const char *comma = memchr(list, ',', length);
        const size_t name = comma ? (size_t)(comma - list) : length;
        if (name == 3 && memcmp(list, "cpu", 3) == 0)
            return true;
        if (!comma)
            return false;
        list += name + 1;
        length -= name + 1;
    }
    return false;
}

/* A line of /proc/self/cgroup, "4:cpu,cpuacct:/path" or (version 2) "0::/path". */
static void follow_line(const char *root, char *line, pst_cpu_budget_info *info)
{
    static const char *const mounts[][4] = {
        {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct",
         "/sys/fs/cgroup/cpuacct,cpu", NULL},
        {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL, NULL},
    };
    char *list = strchr(line, ':');
    char *group = list ? strchr(list + 1, ':') : NULL;
    if (!group)
        return;
    list++;
    const size_t length = (size_t)(group++ - list);
    const bool version2 = length == 0;
    if (!version2 && !names_cpu(list, length))
        return;
    for (const char *const *mount = mounts[version2]; *mount; mount++) {
        char path[PATH_BYTES];
        if ((size_t)snprintf(path, sizeof path, "%s%s", root, *mount) < sizeof path)
            look_upwards(path, group, info);
    }
}

void pst__cpu_budget_at(const char *root, int allowed, pst_cpu_budget_info *info)
{
    char path[PATH_BYTES];
    char groups[GROUPS_BYTES];
    *info = (pst_cpu_budget_info){.allowed = allowed};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    char *line = read_start(path, groups, sizeof groups) ? groups : NULL;
    while (line) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        follow_line(root, line, info);
        line = end ? end + 1 : NULL;
    }
    info->cpus = allowed > 0 ? allowed : INT_MAX;
    if (info->quota > 0 && info->quota < info->cpus)
        info->cpus = info->quota < 1 ? 1 : (int)info->quota;
    if (info->cpus == INT_MAX)
        info->cpus = 1;
}

void pst_cpu_budget_describe(pst_cpu_budget_info *info)
{
    pst__cpu_budget_at("", pst__thread_cpu_count(), info);
}

int pst_cpu_budget(void)
{
    pst_cpu_budget_info info;
    pst_cpu_budget_describe(&info);
    return info.cpus;
}
