/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline.h - stages on pinned workers, run by action lists.
 *
 * A pipeline holds one worker thread for each rank, the stages' weights, and one
 * or more loaded schedules. pst_pipeline_run() executes one iteration of one of
 * them and returns when all ranks are done. Any valid list runs; each rank runs
 * its actions in its row's order. Any number of pipelines may live in a process.
 *
 * Threads: calls on one pipeline come from one thread at a time, apart from
 * pst_pipeline_cancel(). Workers have all signals blocked but those of their own
 * faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP); the caller's signal mask and
 * affinity stay as they are.
 */
#ifndef PENSTOCK_PIPELINE_H
#define PENSTOCK_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/schedule.h>
#include <penstock/stage.h>
#include <penstock/trace.h>
#include <penstock/transport.h>

PST_BEGIN_DECLS

typedef enum pst_bind {
    PST_BIND_AUTO, /* each worker to a core, neighbours near each other; more
                      workers than cores to hyperthreads                       */
    PST_BIND_NONE, /* leave workers to the system                              */
    PST_BIND_CORE, /* as auto, but always to a whole core, shared or not       */
    PST_BIND_LIST  /* to the CPUs in pst_pipeline_options.bind_cpus             */
} pst_bind;

/* `count` floats of a stage's gradients, from `offset` on. */
typedef struct pst_tie_member {
    int stage;
    size_t offset;
} pst_tie_member;

/*
 * Stages that hold copies of the same parameter: within a model, or its replicas.
 * Before `reduce`, all members' gradients become their sum in the order of members,
 * ((m0 + m1)
 * + m2) and so on, so equal optimizers keep the copies equal. Two members may be of one
 * stage; no two of any tie may share elements. The ranks of the members share the sum's
 * work, each as soon as all members' last W's have ended.
 */
typedef struct pst_tie {
    const pst_tie_member *members;
    int member_count; /* at least 2                                            */
    size_t count;     /* floats of each member                                 */
} pst_tie;

/* Zeroed means the defaults. The struct and its arrays are copied. */
typedef struct pst_pipeline_options {
    pst_bind bind;
    const char *topology_synthetic; /* hwloc's synthetic form; NULL: this machine */
    const char *topology_xml;       /* hwloc XML file; NULL: this machine      */
    double watchdog_seconds;        /* no action ended for so long: PST_ETIMEOUT.
                                       0: 60; below 0: never                   */
    const pst_tie *ties;
    int tie_count;
    /* Called once an iteration by the calling thread when every stage has
     * reduced. Sets *step to 0 to skip all `step` callbacks (it is 1 before).
     * NULL: always step. */
    pst_status (*combine)(void *user, int64_t iteration, int *step, pst_error *err);
    void *combine_user;
    int replicas;        /* of the model, as in the schedules (pst_schedule_replicas());
                            their stages are tied by `ties`. 0: 1                     */
    uint64_t delay_seed; /* not 0: random short delays around every hand-over, wait
                            and end of a phase, to shake out races in tests    */
    const char *bind_cpus; /* OS numbers: "0,2,4-5" one CPU a rank, "0-1:2-3" all
                              CPUs of each rank. For one rank the list is its place */
    int huge_pages;        /* 1: ask for huge pages below the buffers. Not where
                              the env brings an allocator                       */
    int team;              /* cores of each rank, for callbacks that use work->team;
                              0: 1                                              */
    /* Called once by each worker and each further member of its team, at its place and
     * before any callback, to warm what the host keeps per thread. May block; must not
     * use the pipeline. NULL: nothing. */
    void (*worker_start)(void *user, int rank);
    void *worker_start_user;
    /* Between processes that each make this pipeline with the same arguments and run
     * their own ranks of it; borrowed. Creating, loading and running are then calls
     * that all make, in one order. A failure on one ends the run on all, and no other
     * run begins. NULL: this process runs all ranks. */
    pst_transport *transport;
    const int *process_of_rank; /* [ranks] with a transport                    */
} pst_pipeline_options;

typedef struct pst_pipeline pst_pipeline;

/* Where one worker is. */
typedef struct pst_worker_info {
    int thread_id;         /* the kernel's                                        */
    int bound;             /* 1: the kernel accepted the binding                  */
    int numa_node;         /* OS number of the one nearest its place; -1: unknown */
    char cpus[64];         /* that it may use, as a list of OS numbers: "0", "2-3" */
    size_t memory_bytes;   /* all buffers placed for this rank                   */
    char place[64];        /* CPUs that it and its team are for, as above; "": none
                              (PST_BIND_NONE)                                     */
    int core;              /* hwloc's logical index of the core there; -1: unknown */
    int planned;           /* 1: that is another machine, or there is no worker yet:
                              nothing is bound                                    */
    int team;              /* cores that it has with its team, at least 1         */
    char memory_nodes[32]; /* OS numbers of the nodes that its memory was found on:
                              "0", "0-1"; "": unknown                           */
} pst_worker_info;

/*
 * Start workers for `ranks` ranks and place the stages' weights (zeroed).
 * rank_of_stage[stages] says on which rank each of the `stages` stands.
 * Owns:   *out is the caller's. `stages`[] is copied; what their `self` points
 *         to must outlive the pipeline.
 * Errors: PST_EINVAL (sizes of neighbours differ, a rank out of range, a bad
 *         topology), PST_ENOMEM, PST_ESYSTEM (a thread could not be started).
 *         All that was refused of bindings is one warning in the log.
 */
PST_API pst_status pst_pipeline_create(const pst_env *env, const pst_stage *stages,
                                       int stage_count, const int *rank_of_stage,
                                       int ranks, const pst_pipeline_options *options,
                                       pst_pipeline **out, pst_error *err);

/*
 * Make `schedule` runnable: check it, plan every buffer and ring, allocate.
 * The schedule may be destroyed afterwards. *program numbers it, from 0. Schedules
 * share one set of buffers, as large as the largest needs.
 * Errors: as pst_schedule_check(); PST_EINVAL where a stage stands on another rank
 *         than rank_of_stage says, or lacks a callback, or where the list has STEPs and
 *         the pipeline has ties; PST_ENOMEM.
 */
PST_API pst_status pst_pipeline_load(pst_pipeline *pipeline,
                                     const pst_schedule *schedule, int *program,
                                     pst_error *err);

/*
 * One iteration of `program`; its first `microbatches` microbatches only where
 * that is > 0 (a list without backward may be run short; slices of sequences count
 * as microbatches). `iteration` is handed to callbacks and messages. In a list with
 * backward actions: gradients are zeroed first, and after the last action come ties,
 * `reduce`, `combine` and `step`; but a list with STEPs has a stage's `reduce` and
 * `step` there, without ties and `combine`.
 * Errors: PST_EPEER: another process failed, and that is its reason.
 *         PST_ECALLBACK's text names stage, microbatch and op, and carries the
 *         callback's own sentence (its status is returned where it is not PST_OK);
 *         PST_ETIMEOUT's begins with the rank to blame and where it is;
 *         pst_pipeline_report() then tells of every rank. After an error buffers hold
 *         garbage but weights and the pipeline may be used again. A run that ends
 *         early returns within 2 s; a callback that has not returned by then cannot
 *         be stopped: its thread and the pipeline's memory are abandoned, the text
 *         says how many and how much, and every later run is refused.
 */
PST_API pst_status pst_pipeline_run(pst_pipeline *pipeline, int program,
                                    int microbatches, int64_t iteration,
                                    pst_error *err);

/* End a run from any thread or signal handler: it returns PST_ECALLBACK soon. */
PST_API void pst_pipeline_cancel(pst_pipeline *pipeline);

/* A stage's own memory, borrowed until the pipeline is destroyed; not during a run.
 * NULL: its rank is in another process. */
PST_API void *pst_pipeline_weights(pst_pipeline *pipeline, int stage);
PST_API float *pst_pipeline_gradients(pst_pipeline *pipeline, int stage);
PST_API void *pst_pipeline_optimizer(pst_pipeline *pipeline, int stage);

/* The last run's events of `rank`, in the order of its row; borrowed until the next
 * run. */
PST_API const pst_trace_event *pst_pipeline_trace(const pst_pipeline *pipeline,
                                                  int rank, size_t *count);

/* Fetch the last run's events of the ranks in other processes; all call it. Times are
 * those of each host's own clock. Nothing where there is one process. Errors:
 * PST_EPEER, PST_ENOMEM. */
PST_API pst_status pst_pipeline_share_trace(pst_pipeline *pipeline, pst_error *err);

PST_API void pst_pipeline_worker(const pst_pipeline *pipeline, int rank,
                                 pst_worker_info *info);

/* Where `ranks` workers would be, by `bind`, `bind_cpus` and the topology in options
 * (NULL: defaults); infos[ranks]. Starts and binds nothing.
 * Errors: PST_EINVAL, PST_ENOMEM, PST_ESYSTEM. */
PST_API pst_status pst_pipeline_places(const pst_env *env, int ranks,
                                       const pst_pipeline_options *options,
                                       pst_worker_info *infos, pst_error *err);

/* How many cores each of `ranks` ranks can have for its team, at least 1: such as no
 * other has and as share a cache, or with PST_BIND_LIST the cores of the smallest
 * place; on this machine no more than the CPU budget allows. `options` as above.
 * Errors: as pst_pipeline_places(). */
PST_API pst_status pst_pipeline_team(const pst_env *env, int ranks,
                                     const pst_pipeline_options *options, int *team,
                                     pst_error *err);

/* CPUs this process may use: allowed by affinity and by cgroup quota, at least 1. */
PST_API int pst_cpu_budget(void);

/* The same, and where it comes from. */
typedef struct pst_cpu_budget_info {
    int cpus;             /* the budget                                        */
    int allowed;          /* CPUs by affinity; 0: unknown                      */
    double quota;         /* CPUs by the least cgroup quota; 0: there is none  */
    char quota_path[256]; /* the file that says so, cut; "": none              */
} pst_cpu_budget_info;

PST_API void pst_cpu_budget_describe(pst_cpu_budget_info *info);

/* For people: each worker's state, action, and what it waits for. Returns the length
 * that the whole text has (as snprintf). */
PST_API size_t pst_pipeline_dump(const pst_pipeline *pipeline, char *text, size_t size);

/* What each rank was doing or waited for when the last run was ended by an error or by
 * the watchdog, as pst_pipeline_dump(), with the culprit marked; else "". Borrowed
 * until the next run. */
PST_API const char *pst_pipeline_report(const pst_pipeline *pipeline);

/* Ranks whose workers use the CPUs of this process: its own, and those of other
 * processes on its host that were given the same. */
PST_API int pst_pipeline_sharing(const pst_pipeline *pipeline);

/* Workers that are still in a callback after a run that had to end without them, and
 * the bytes that stay with them: the whole pipeline's, since a callback may write into
 * its neighbours' memory. Not during a run. */
PST_API int pst_pipeline_abandoned(const pst_pipeline *pipeline, size_t *bytes);

/* What a worker is at. */
typedef struct pst_whereabouts {
    int rank;
    int stage;      /* -1: none                                                */
    int microbatch; /* -1: none                                                */
    int64_t iteration;
    const char *name; /* "forward", "reduce" and so on, constant; "no action"    */
} pst_whereabouts;

/* 1 with *place filled in where the calling thread is one of the pipeline's workers,
 * else 0. Async-signal-safe: for handlers of SIGSEGV and its like. */
PST_API int pst_pipeline_here(const pst_pipeline *pipeline, pst_whereabouts *place);

/* Ends and joins the workers. NULL allowed. Not during a run. Memory that a callback
 * which never returned may still use stays, and the log tells how much. */
PST_API void pst_pipeline_destroy(pst_pipeline *pipeline);

PST_END_DECLS

#endif
