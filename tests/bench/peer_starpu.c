/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_starpu.c - two empty stages as StarPU's tasks, each after the one before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <starpu.h>

enum { TOKENS = 20000, ROUNDS = 5, IN_FLIGHT = 64 };

static void nothing(void *buffers[], void *argument)
{
    (void)buffers, (void)argument;
}

static struct starpu_codelet stage = {
    .cpu_funcs = {nothing}, .nbuffers = 2, .modes = {STARPU_RW, STARPU_RW}};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A task takes its stage, so that the stage is in order, and its token. */
static double run(starpu_data_handle_t *stages, starpu_data_handle_t *items)
{
    const double start = seconds();
    for (int i = 0; i < TOKENS; i++)
        for (int s = 0; s < 2; s++)
            if (starpu_task_insert(&stage, STARPU_RW, stages[s], STARPU_RW,
                                   items[i % IN_FLIGHT], 0) != 0)
                exit(1);
    starpu_task_wait_for_all();
    return (seconds() - start) * 1e9 / TOKENS;
}

int main(void)
{
    static char bytes[2 + IN_FLIGHT];
    starpu_data_handle_t handles[2 + IN_FLIGHT];
    double ns[ROUNDS];
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 2;
    if (starpu_init(&conf) != 0)
        return 1;
    for (int i = 0; i < 2 + IN_FLIGHT; i++)
        starpu_vector_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)&bytes[i],
                                    1, 1);
    for (int i = 0; i < ROUNDS; i++)
        ns[i] = run(handles, handles + 2);
    qsort(ns, ROUNDS, sizeof *ns, ascending);
    for (int i = 0; i < 2 + IN_FLIGHT; i++)
        starpu_data_unregister(handles[i]);
    starpu_shutdown();
    printf("StarPU, 2 empty tasks a token, 2 workers: %.0f ns a token, %.0f a task "
           "(median of %d)\n",
           ns[ROUNDS / 2], ns[ROUNDS / 2] / 2, ROUNDS);
    return 0;
}
