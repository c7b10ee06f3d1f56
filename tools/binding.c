/* SPDX-License-Identifier: BSD-3-Clause */
/* binding.c - --bind in, and its report out. */
#include <stdio.h>
#include <string.h>

#include "tools/binding.h"

int binding_parse(const command *command, const char *text,
                  pst_pipeline_options *options)
{
    static const struct {
        const char *name;
        pst_bind bind;
    } words[] = {
        {"auto", PST_BIND_AUTO}, {"none", PST_BIND_NONE}, {"core", PST_BIND_CORE}};
    if (text == NULL)
        return OPTIONS_GO_ON;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i].name) == 0) {
            options->bind = words[i].bind;
            return OPTIONS_GO_ON;
        }
    if (*text == 0 || text[strspn(text, "0123456789,:-")] != 0)
        return options_refuse(command,
                              "--bind '%s': must be one of auto, none, core, or CPUs, "
                              "as in 0,2,4-5 or 0-1:2-3",
                              text);
    options->bind = PST_BIND_LIST;
    options->bind_cpus = text;
    return OPTIONS_GO_ON;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

void binding_print_budget(void)
{
    pst_cpu_budget_info info;
    pst_cpu_budget_describe(&info);
    printf("budget: %d CPU%s; affinity allows %d, ", info.cpus, plural(info.cpus),
           info.allowed);
    if (info.quota > 0)
        printf("%s %.2f\n", info.quota_path, info.quota);
    else
        printf("no cgroup quota\n");
}

static void print_place(const pst_worker_info *info)
{
    if (info->core >= 0)
        printf(", core %d", info->core);
    if (info->numa_node >= 0)
        printf(", NUMA node %d", info->numa_node);
}

void binding_print(int rank, const pst_worker_info *info)
{
    printf("rank %d: ", rank);
    if (info->thread_id > 0)
        printf("thread %d, %s CPU %s", info->thread_id,
               info->bound ? "bound to" : "not bound, may use", info->cpus);
    if (info->place[0] == 0 && info->thread_id == 0)
        printf("would not be bound");
    if (info->place[0] != 0 && !info->bound)
        printf("%s%s CPU %s", info->thread_id > 0 ? "; " : "",
               info->planned ? "would be bound to" : "its place is", info->place);
    if (info->place[0] != 0)
        print_place(info);
    if (info->team > 1 && info->bound)
        printf("; its team of %d on CPU %s", info->team, info->place);
    else if (info->team > 1 && (info->place[0] != 0 || info->thread_id > 0))
        printf("; a team of %d", info->team);
    if (info->memory_bytes > 0)
        printf("; %.1f MiB", (double)info->memory_bytes / 1048576.0);
    if (info->memory_nodes[0] != 0)
        printf(" on node %s", info->memory_nodes);
    putchar('\n');
}
