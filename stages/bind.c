/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.c - placing threads and memory, with hwloc and with mmap. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "stages/bind.h"

#include <errno.h>
#include <hwloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

bool pst__bind_is_here(hwloc_topology_t machine)
{
    return hwloc_topology_is_thissystem(machine) != 0;
}

bool pst__bind_cpus(hwloc_topology_t machine, hwloc_bitmap_t cpus)
{
    return hwloc_get_cpubind(machine, cpus, HWLOC_CPUBIND_THREAD) == 0;
}

bool pst__bind_thread(hwloc_topology_t machine, hwloc_const_bitmap_t cpus)
{
    if (hwloc_set_cpubind(machine, cpus, HWLOC_CPUBIND_THREAD | HWLOC_CPUBIND_STRICT) !=
        0)
        return false;
    hwloc_bitmap_t found = hwloc_bitmap_alloc();
    if (!found) {
        errno = ENOMEM;
        return false;
    }
    const bool same =
        pst__bind_cpus(machine, found) && hwloc_bitmap_isequal(found, cpus);
    hwloc_bitmap_free(found);
    if (!same)
        errno = EXDEV;
    return same;
}

void *pst__bind_map(size_t bytes, bool huge)
{
    const size_t more = huge ? HUGE_PAGE : 0;
    if (bytes > SIZE_MAX - more)
        return NULL;
    char *memory = mmap(NULL, bytes + more, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (!huge)
        return memory;
    /* Of the mapping keep what begins with a huge page. */
    const size_t before = (size_t)(-(uintptr_t)memory % HUGE_PAGE);
    if (before > 0)
        munmap(memory, before);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t kept = (bytes + page - 1) / page * page;
    if (before + kept < bytes + more)
        munmap(memory + before + kept, bytes + more - before - kept);
    return memory + before;
}

void pst__bind_unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

/* "always madvise [never]" */
static bool never_gives_huge(void)
{
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!file)
        return false;
    const bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return got && strstr(line, "[never]");
}

bool pst__bind_huge(void *memory, size_t bytes)
{
    if (madvise(memory, bytes, MADV_HUGEPAGE) != 0)
        return false;
    if (!never_gives_huge())
        return true;
    errno = EOPNOTSUPP;
    return false;
}

bool pst__bind_has_policy(hwloc_topology_t machine)
{
    hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    if (!nodes)
        return false;
    /* Who cannot be asked has told nothing. */
    const bool known =
        hwloc_get_membind(machine, nodes, &policy,
                          HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0;
    hwloc_bitmap_free(nodes);
    return known && policy != HWLOC_MEMBIND_DEFAULT &&
           policy != HWLOC_MEMBIND_FIRSTTOUCH;
}

bool pst__bind_memory(hwloc_topology_t machine, const void *memory, size_t bytes,
                      hwloc_const_bitmap_t nodes)
{
    return hwloc_set_area_membind(machine, memory, bytes, nodes, HWLOC_MEMBIND_BIND,
                                  HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_NOCPUBIND) ==
           0;
}

bool pst__bind_nodes(hwloc_topology_t machine, const void *memory, size_t bytes,
                     hwloc_bitmap_t nodes)
{
    return hwloc_get_area_memlocation(machine, memory, bytes, nodes,
                                      HWLOC_MEMBIND_BYNODESET) == 0;
}

long long pst__bind_free_bytes(int node)
{
    char path[64];
    char line[128];
    long long kibibytes = -1;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
    FILE *file = fopen(path, "re");
    while (file && kibibytes < 0 && fgets(line, sizeof line, file)) {
        const char *value = strstr(line, "MemFree:");
        if (!value || sscanf(value, "MemFree: %lld", &kibibytes) != 1)
            kibibytes = -1;
    }
    if (file)
        fclose(file);
    return kibibytes < 0 ? -1 : kibibytes * 1024;
}
