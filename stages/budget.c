/* SPDX-License-Identifier: BSD-3-Clause */
/* budget.c - the CPU budget, from affinity and from cgroup quotas. */
#include "stages/budget.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <penstock/pipeline.h>

#include "stages/thread.h"

enum { PATH_BYTES = 1024 };

/* The first line of a file, without its newline. */
static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

/* CPUs by the quota of one cgroup folder; INT_MAX: none is set. */
static int folder_quota(const char *folder)
{
    char path[PATH_BYTES + 32];
    char line[128];
    double quota = -1;
    double period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_line(path, line, sizeof line)) {
        /* "max 100000" has no number in front, so nothing is read */
        if (sscanf(line, "%lf %lf", &quota, &period) != 2)
            return INT_MAX;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &quota) != 1)
            return INT_MAX;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &period) != 1)
            return INT_MAX;
    }
    if (!(quota > 0) || !(period > 0) || quota / period >= INT_MAX)
        return INT_MAX;
    return quota < period ? 1 : (int)(quota / period);
}

/* The least quota from `mount`/`group` up to `mount`. In a container the group's path
 * may be the host's and absent here: its parents end at the mount all the same. */
static int least_quota(const char *mount, const char *group)
{
    char folder[PATH_BYTES];
    const size_t mount_length = strlen(mount);
    int least = INT_MAX;
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder)
        return folder_quota(mount);
    for (;;) {
        const int quota = folder_quota(folder);
        if (quota < least)
            least = quota;
        char *slash = strrchr(folder + mount_length, '/');
        if (!slash)
            return least;
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
static int line_quota(const char *root, char *line)
{
    static const char *const mounts[][4] = {
        {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct",
         "/sys/fs/cgroup/cpuacct,cpu", NULL},
        {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL, NULL},
    };
    char *list = strchr(line, ':');
    char *group = list ? strchr(list + 1, ':') : NULL;
    if (!group)
        return INT_MAX;
    list++;
    const size_t length = (size_t)(group++ - list);
    const bool version2 = length == 0;
    if (!version2 && !names_cpu(list, length))
        return INT_MAX;
    group[strcspn(group, "\n")] = '\0';
    int least = INT_MAX;
    for (const char *const *mount = mounts[version2]; *mount; mount++) {
        char path[PATH_BYTES];
        if ((size_t)snprintf(path, sizeof path, "%s%s", root, *mount) >= sizeof path)
            continue;
        const int quota = least_quota(path, group);
        if (quota < least)
            least = quota;
    }
    return least;
}

int pst__cpu_budget_at(const char *root, int allowed)
{
    char line[PATH_BYTES];
    int budget = allowed > 0 ? allowed : INT_MAX;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *groups = fopen(line, "re");
    while (groups && fgets(line, sizeof line, groups)) {
        const int quota = line_quota(root, line);
        if (quota < budget)
            budget = quota;
    }
    if (groups)
        fclose(groups);
    return budget == INT_MAX || budget < 1 ? 1 : budget;
}

int pst_cpu_budget(void)
{
    return pst__cpu_budget_at("", pst__thread_cpu_count());
}
