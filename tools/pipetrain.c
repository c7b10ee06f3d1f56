/* SPDX-License-Identifier: BSD-3-Clause */
/* pipetrain.c - trains a GPT through a pipeline: its command line. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <penstock/blas.h>
#include <penstock/version.h>

#include "tools/binding.h"
#include "tools/draw_cairo.h"
#include "tools/draw_text.h"
#include "tools/launch.h"
#include "tools/options.h"
#include "tools/pipetrain.h"
#include "tools/say.h"
#include "tools/source.h"
#include "tools/supervise.h"

/*
 * OpenBLAS starts its threads before main and never ends them, unless the environment
 * told it not to. So where it does not, set that and start once more.
 */
static void restart_with_one_blas_thread(char **argv)
{
    static const char mark[] = "PENSTOCK_RESTARTED";
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    if ((threads != NULL && strcmp(threads, "1") == 0) || getenv(mark) != NULL)
        return;
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv(mark, "1", 1);
    execv("/proc/self/exe", argv);
    /* Could not: the library warns of the idle threads. */
}

static void print_version(void)
{
    static const char *const threading[] = {"serial", "pthread", "OpenMP"};
    pst_blas_info info;
    pst_blas_describe(&info);
    printf("pipetrain (Penstock) %s\n", pst_version_string());
    printf("OpenBLAS  %s; %s build, %s kernels\n", info.config,
           threading[info.threading], info.core);
    printf("kernels   %s\n", info.kernels);
}

static const char *const models[] = {"gpt", NULL};
static const char *const optimizers[] = {"adamw", NULL};
static const char *const gelus[] = {"exact", "tanh", NULL};

/* The quality settings that README.md shows. */
static const pipetrain_settings defaults = {
    .schedule = "1f1b",
    .stages = 2,
    .chunks = 1,
    .batch = 12,
    .microbatches = 4,
    .steps = 2000,
    .seed = 1,
    .val_fraction = 0.1,
    .model = {.layers = 4,
              .heads = 4,
              .width = 128,
              .context = 64,
              .vocabulary = 256,
              .layernorm_epsilon = 1e-5f},
    .optimizer = {.lr = 1e-3,
                  .min_lr = -1,
                  .beta1 = 0.9,
                  .beta2 = 0.99,
                  .epsilon = 1e-8,
                  .weight_decay = 0.1,
                  .clip = 1,
                  .warmup = 100},
    .watchdog_seconds = 60,
    .prompt = "\n",
    .temperature = 0.8,
};

/* What the user gave, where that matters. */
typedef struct given {
    int stages, microbatches, checkpoint;
} given;

enum { WHOLE = 2147483647 };

static int read_faults(const command *command, const option_strings *texts,
                       pipetrain_settings *s)
{
    for (; s->fault_count < texts->count; s->fault_count++) {
        pst_error err = PST_ERROR_INIT;
        const char *text = texts->text[s->fault_count];
        if (pst_fault_parse(text, &s->fault[s->fault_count], &err) != PST_OK)
            return options_refuse(command, "--fault %s: %s", text, err.text);
    }
    return OPTIONS_GO_ON;
}

/* "90", "90s", "30m", "2.5h", "7d" */
static int read_duration(const command *command, const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    if (text == NULL)
        return OPTIONS_GO_ON;
    const double count = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && isdigit((unsigned char)end[-1]) &&
            strcmp(end, units[i].unit) == 0 && count > 0 && count < 1e12) {
            *seconds = count * units[i].seconds;
            return OPTIONS_GO_ON;
        }
    return options_refuse(command,
                          "--time-limit '%s': a number above 0 and s, m, h or d, as in "
                          "90s or 2.5h, would work",
                          text);
}

/* Behind -- stands what --restart is to start. */
static int read_supervised(const command *command, const char *first, char **end,
                           int count, pipetrain_settings *s)
{
    if (count > 0 && s->restarts == 0)
        return options_refuse(command, "'%s': one operand too many", first);
    if (count > 0 && strcmp(end[-count - 1], "--") != 0)
        return options_refuse(command, "'%s': a command to restart comes behind --",
                              first);
    const char *launcher = launch_launcher();
    if (s->restarts > 0 && launcher != NULL)
        return options_refuse(command,
                              "--restart: %s has started this; it cannot start one "
                              "process again, and 'pipetrain --restart %d -- mpirun "
                              "...' would work",
                              launcher, s->restarts);
    s->supervised = end - count;
    s->supervised_count = count;
    if (count > 0)
        s->checkpoint = supervise_folder(s->supervised, count);
    if (s->restarts > 0 && s->checkpoint == NULL)
        return options_refuse(command, "--restart needs --checkpoint DIR%s",
                              count > 0 ? " in the command behind --" : "");
    return OPTIONS_GO_ON;
}

static int parse(int argc, char **argv, pipetrain_settings *s, given *g)
{
    int model = 0, optimizer = 0, gelu = 0, count;
    const char *bind = NULL, *time_limit = NULL;
    option_strings faults = {.count = 0};
    /* clang-format off */
    const option table[] = {
        {.name = "data", .kind = OPTION_STRING, .value = &s->data, .argument = "FILE",
         .help = "text to train on; its bytes are the tokens",
         .alike = OPTION_PRESENT},
        {.name = "model", .kind = OPTION_CHOICE, .value = &model, .argument = "NAME",
         .help = "gpt", .choices = models},
        {.name = "layers", .kind = OPTION_INT, .value = &s->model.layers, .argument = "L",
         .help = "blocks (4)", .lowest = 1, .highest = 65535},
        {.name = "heads", .kind = OPTION_INT, .value = &s->model.heads, .argument = "H",
         .help = "attention heads; must divide the width (4)", .lowest = 1,
         .highest = 65535},
        {.name = "width", .kind = OPTION_INT, .value = &s->model.width, .argument = "C",
         .help = "numbers a token has between blocks (128)", .lowest = 1,
         .highest = 1 << 20},
        {.name = "context", .kind = OPTION_INT, .value = &s->model.context,
         .argument = "T", .help = "tokens of a sequence (64)", .lowest = 1,
         .highest = 1 << 20},
        {.name = "vocab", .kind = OPTION_INT, .value = &s->model.vocabulary,
         .argument = "V", .help = "different tokens (256, all bytes)", .lowest = 1,
         .highest = 1 << 20},
        {.name = "untied", .kind = OPTION_FLAG, .value = &s->model.untied,
         .help = "give the head a matrix of its own"},
        {.name = "bias", .kind = OPTION_FLAG, .value = &s->model.bias,
         .help = "biases in linear layers and layer norms"},
        {.name = "gelu", .kind = OPTION_CHOICE, .value = &gelu, .argument = "FORM",
         .help = "exact or tanh (exact)", .choices = gelus},
        {.name = "dropout", .kind = OPTION_FLOAT, .value = &s->model.dropout,
         .argument = "X", .help = "rate at which elements are dropped (0)", .lowest = 0,
         .highest = 0.99},
        {.name = "batch", .kind = OPTION_INT, .value = &s->batch, .argument = "B",
         .help = "sequences a step, over all microbatches (12)", .lowest = 1,
         .highest = WHOLE},
        {.name = "microbatches", .letter = 'm', .kind = OPTION_INT,
         .value = &s->microbatches, .argument = "M",
         .help = "parts that a batch, or a copy's share of it, is cut into (4)", .lowest = 1, .highest = WHOLE,
         .given = &g->microbatches},
        {.name = "stages", .kind = OPTION_INT, .value = &s->stages, .argument = "S",
         .help = "stages in all (2)", .lowest = 1, .highest = 65535, .given = &g->stages},
        {.name = "chunks", .letter = 'v', .kind = OPTION_INT, .value = &s->chunks,
         .argument = "V", .help = "stages on each rank (1)", .lowest = 1,
         .highest = 65535},
        {.name = "group", .kind = OPTION_INT, .value = &s->group, .argument = "N",
         .help = "microbatches that go from chunk to chunk, or into an update, together",
         .lowest = 1, .highest = WHOLE},
        {.name = "slices", .kind = OPTION_INT, .value = &s->slices, .argument = "K",
         .help = "parts that each sequence is cut into, by seq1f1b or a file (2; as the "
                 "file says)",
         .lowest = 1, .highest = WHOLE},
        {.name = "data-parallel", .kind = OPTION_INT, .value = &s->data_parallel,
         .argument = "D", .help = "copies of the pipeline, which share the batch (1; as a "
                                  "file says)",
         .lowest = 1, .highest = 65535},
        {.name = "shares", .kind = OPTION_STRING, .value = &s->shares,
         .argument = "N,N", .help = "how much of it each copy takes, as their speeds "
                                    "(equal)"},
        {.name = "schedule", .kind = OPTION_STRING, .value = &s->schedule,
         .argument = "NAME|FILE.csv", .help = "a name from 'pipesim list', or a list of "
                                              "one's own (1f1b)"},
        {.name = "steps", .kind = OPTION_INT64, .value = &s->steps, .argument = "N",
         .help = "optimizer steps, and the horizon of the cosine (2000)", .lowest = 0,
         .highest = 1e15},
        {.name = "stop-at", .kind = OPTION_INT64, .value = &s->stop_at, .argument = "N",
         .help = "end after step N, with a checkpoint", .lowest = 1, .highest = 1e15},
        {.name = "time-limit", .kind = OPTION_STRING, .value = &time_limit,
         .argument = "DURATION", .help = "end after the step that reaches it, with a "
                                         "checkpoint: 90s, 30m, 2.5h"},
        {.name = "restart", .kind = OPTION_INT, .value = &s->restarts, .argument = "N",
         .help = "start up to N times again, with --resume, what fails; or what comes "
                 "behind --, on the hosts that answer",
         .lowest = 0, .highest = WHOLE},
        {.name = "seed", .kind = OPTION_UINT64, .value = &s->seed, .argument = "N",
         .help = "of weights, data and dropout (1)"},
        {.name = "val-fraction", .kind = OPTION_DOUBLE, .value = &s->val_fraction,
         .argument = "X", .help = "last part of the text, held out (0.1)", .lowest = 0,
         .highest = 0.999},
        {.name = "optimizer", .kind = OPTION_CHOICE, .value = &optimizer,
         .argument = "NAME", .help = "adamw", .choices = optimizers},
        {.name = "lr", .kind = OPTION_DOUBLE, .value = &s->optimizer.lr, .argument = "X",
         .help = "highest learning rate (0.001)", .lowest = 0, .highest = INFINITY},
        {.name = "min-lr", .kind = OPTION_DOUBLE, .value = &s->optimizer.min_lr,
         .argument = "X", .help = "rate at the end of the cosine (a tenth of --lr)",
         .lowest = 0, .highest = INFINITY},
        {.name = "warmup", .kind = OPTION_INT64, .value = &s->optimizer.warmup,
         .argument = "N", .help = "steps of a rising rate (100)", .lowest = 0,
         .highest = 1e15},
        {.name = "beta1", .kind = OPTION_DOUBLE, .value = &s->optimizer.beta1,
         .argument = "X", .help = "decay of the mean (0.9)", .lowest = 0,
         .highest = 0.99999999},
        {.name = "beta2", .kind = OPTION_DOUBLE, .value = &s->optimizer.beta2,
         .argument = "X", .help = "decay of the mean square (0.99)", .lowest = 0,
         .highest = 0.99999999},
        {.name = "weight-decay", .kind = OPTION_DOUBLE,
         .value = &s->optimizer.weight_decay, .argument = "X",
         .help = "on matrices (0.1)", .lowest = 0, .highest = INFINITY},
        {.name = "clip", .kind = OPTION_DOUBLE, .value = &s->optimizer.clip,
         .argument = "X", .help = "largest norm of the gradient; 0: any (1; 0 where "
                                  "stages step alone)",
         .lowest = 0, .highest = INFINITY, .given = &s->clip_given},
        {.name = "checkpoint", .kind = OPTION_STRING, .value = &s->checkpoint,
         .argument = "DIR", .help = "save the state there at the end",
         .given = &g->checkpoint,
         .alike = OPTION_PRESENT},
        {.name = "checkpoint-every", .kind = OPTION_INT64, .value = &s->checkpoint_every,
         .argument = "N", .help = "and every N steps", .lowest = 1, .highest = 1e15},
        {.name = "resume", .kind = OPTION_FLAG, .value = &s->resume,
         .help = "go on from the newest checkpoint in DIR"},
        {.name = "init", .kind = OPTION_STRING, .value = &s->init, .argument = "FILE",
         .help = "start from weights in a safetensors file",
         .alike = OPTION_PRESENT},
        {.name = "log", .kind = OPTION_STRING, .value = &s->log, .argument = "FILE.jsonl",
         .help = "one JSON object a step",
         .alike = OPTION_OWN},
        {.name = "trace", .kind = OPTION_STRING, .value = &s->trace,
         .argument = "FILE.json", .help = "the last steps' actions, for Perfetto",
         .alike = OPTION_PRESENT},
        {.name = "picture", .kind = OPTION_STRING, .value = &s->picture,
         .argument = "FILE", .help = "draw predicted and measured (.svg, .pdf, .png)",
         .alike = OPTION_PRESENT},
        {.name = "draw", .kind = OPTION_FLAG, .value = &s->draw,
         .help = "draw predicted and measured as text"},
        {.name = "color", .kind = OPTION_CHOICE, .value = &s->color, .argument = "WHEN",
         .help = "auto, always or never (auto: on a terminal)",
         .choices = draw_color_names, .variable = "PENSTOCK_COLOR",
         .alike = OPTION_OWN},
        {.name = "digest", .kind = OPTION_FLAG, .value = &s->digest,
         .help = "print the SHA-256 of all weights at the end"},
        {.name = "generate", .kind = OPTION_INT64, .value = &s->generate, .argument = "N",
         .help = "print N bytes of generated text at the end", .lowest = 0,
         .highest = 1e9},
        {.name = "prompt", .kind = OPTION_STRING, .value = &s->prompt, .argument = "TEXT",
         .help = "what the generated text begins with (a newline)"},
        {.name = "temperature", .kind = OPTION_DOUBLE, .value = &s->temperature,
         .argument = "X", .help = "of generation; 0: always the likeliest (0.8)",
         .lowest = 0, .highest = 1000},
        {.name = "bind", .kind = OPTION_STRING, .value = &bind, .argument = "WHERE",
         .help = "auto, none, core, or CPUs, as in 0,2,4-5 or 0-1:2-3 (auto)",
         .variable = "PENSTOCK_BIND",
         .alike = OPTION_OWN},
        {.name = "team", .kind = OPTION_INT, .value = &s->pipeline.team, .argument = "K",
         .help = "cores of each rank (as many as there are)", .lowest = 1,
         .highest = 1024,
         .alike = OPTION_OWN},
        {.name = "huge-pages", .kind = OPTION_FLAG, .value = &s->pipeline.huge_pages,
         .help = "ask for huge pages for weights and activations",
         .alike = OPTION_OWN},
        {.name = "topology", .kind = OPTION_STRING,
         .value = &s->pipeline.topology_synthetic, .argument = "TEXT",
         .help = "plan workers' places on this machine (hwloc's synthetic form), and "
                 "bind nothing",
         .alike = OPTION_OWN},
        {.name = "topology-xml", .kind = OPTION_STRING,
         .value = &s->pipeline.topology_xml, .argument = "FILE",
         .help = "the same for a machine that lstopo wrote down",
         .alike = OPTION_OWN},
        {.name = "report-binding", .kind = OPTION_FLAG, .value = &s->report_binding,
         .help = "say where each worker and its memory is"},
        {.name = "watchdog", .kind = OPTION_DOUBLE, .value = &s->watchdog_seconds,
         .argument = "SECONDS", .help = "end a run in which nothing moves so long; 0: "
                                        "never (60)",
         .lowest = 0, .highest = 1e9,
         .alike = OPTION_OWN},
        {.name = "check-finite", .kind = OPTION_FLAG, .value = &s->check_finite,
         .help = "look for NaN in all that every stage makes",
         .alike = OPTION_OWN},
        {.name = "fault", .kind = OPTION_STRINGS, .value = &faults, .argument = "PLACE,KIND",
         .help = "let a fault happen: 'stage=2,mb=5,op=F,kind=error'",
         .alike = OPTION_OWN},
        {.name = "quiet", .letter = 'q', .kind = OPTION_FLAG, .value = &s->quiet,
         .help = "results only",
         .alike = OPTION_OWN},
        {.name = "workers", .kind = OPTION_STRING, .value = &s->workers,
         .argument = "N,N...", .help = "ranks of each process, where a launcher of MPI has "
                                       "started several (as many each)"},
        {.name = "allow-mixed", .kind = OPTION_FLAG, .value = &s->allow_mixed,
         .help = "run with processes that round differently, and mark the digest"},
        {.name = "self-test", .kind = OPTION_FLAG, .value = &s->self_test,
         .help = "measure messages between the processes that a launcher started"},
        {.name = "check-reference", .kind = OPTION_STRING, .value = &s->check_reference,
         .argument = "STEM", .help = "compare with STEM.config.json, .safetensors, "
                                     ".tokens.json, .expected.*"},
    };
    /* clang-format on */
    const command command = {
        .name = "pipetrain",
        .summary = "Trains a GPT on a text, in a pipeline of stages on pinned workers.",
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .most_operands = argc,
        .print_version = print_version};
    const char **operands = calloc((size_t)argc + 1, sizeof *operands);
    if (operands == NULL) {
        say_error("no memory for the command line");
        return 1;
    }
    int status = options_parse(&command, argc, argv, operands, &count);
    if (status == OPTIONS_GO_ON)
        status = read_supervised(&command, operands[0], argv + argc, count, s);
    free(operands);
    if (status == OPTIONS_GO_ON)
        status = read_duration(&command, time_limit, &s->time_limit);
    if (status != OPTIONS_GO_ON || s->supervised_count > 0)
        return status;
    s->model.gelu = (pst_gelu)gelu;
    status = binding_parse(&command, bind, &s->pipeline);
    if (status != OPTIONS_GO_ON)
        return status;
    if (s->watchdog_seconds == 0)
        s->watchdog_seconds = -1;
    status = read_faults(&command, &faults, s);
    if (status != OPTIONS_GO_ON)
        return status;
    s->optimizer.steps = s->steps;
    options_tell(&command, s->told);
    if (s->check_reference == NULL && s->data == NULL && !s->self_test)
        return options_refuse(&command, "--data FILE is missing");
    draw_format format;
    if (s->picture != NULL && !draw_cairo_format(s->picture, &format))
        return options_refuse(
            &command,
            "--picture %s: its ending says no format; use .svg, .pdf or "
            ".png",
            s->picture);
    if ((s->resume || s->checkpoint_every > 0) && s->checkpoint == NULL)
        return options_refuse(&command, "%s needs --checkpoint DIR",
                              s->resume ? "--resume" : "--checkpoint-every");
    if (s->stages % s->chunks != 0)
        return options_refuse(
            &command,
            "%d stages in chunks of %d; the stages must be a multiple of "
            "the chunks",
            s->stages, s->chunks);
    return OPTIONS_GO_ON;
}

pst_status pipetrain_schedule(const pipetrain_settings *s, pst_schedule **out,
                              pst_error *err)
{
    pst_shape shape = {
        .microbatches = s->microbatches, .group = s->group, .slices = s->slices};
    if (pst_schedule_kind_find(s->schedule) != NULL || s->stages != 0) {
        shape.ranks = s->stages / s->chunks;
        shape.chunks = s->chunks;
    }
    pst_schedule *schedule;
    pst_status status = source_schedule(s->schedule, &shape, NULL, &schedule, err);
    if (status != PST_OK)
        return status;
    status = source_replicate(&schedule, s->data_parallel, err);
    if (status == PST_OK)
        *out = schedule;
    else
        pst_schedule_destroy(schedule);
    return status;
}

/* A file brings its own stages and microbatches, unless the user insists; a small
 * batch, or share of one, is cut into single sequences. */
static void settle_shape(pipetrain_settings *s, const given *g)
{
    const int share = s->batch / (s->data_parallel ? s->data_parallel : 1);
    if (!g->microbatches && s->microbatches > share)
        s->microbatches = share > 1 ? share : 1;
    if (pst_schedule_kind_find(s->schedule) != NULL)
        return;
    if (!g->stages)
        s->stages = 0;
    if (!g->microbatches)
        s->microbatches = 0;
}

/* The command behind --, or this program's own without the restarts. */
static int supervise_run(const pipetrain_settings *s, int argc, char **argv)
{
    static char option[] = "--restart", never[] = "0";
    supervised what = {
        .words = s->supervised, .count = s->supervised_count, .folder = s->checkpoint};
    char **words = NULL;
    if (what.count == 0) {
        words = calloc((size_t)argc + 2, sizeof *words);
        if (words == NULL) {
            say_error("no memory for the command line");
            return 1;
        }
        memcpy(words, argv, (size_t)argc * sizeof *words);
        words[argc] = option;
        words[argc + 1] = never;
        what.words = words;
        what.count = argc + 2;
        what.program = "/proc/self/exe";
    }
    const int status = supervise(&what, s->restarts);
    free(words);
    return status;
}

int main(int argc, char **argv)
{
    pipetrain_settings settings = defaults;
    given g = {.stages = 0};
    say_program("pipetrain");
    restart_with_one_blas_thread(argv);
    unsetenv("PENSTOCK_RESTARTED");
    /* Which is "exe" where it was started once more. */
    prctl(PR_SET_NAME, say_program_name());
    int status = parse(argc, argv, &settings, &g);
    if (status != OPTIONS_GO_ON)
        return say_finish(status);
    if (settings.self_test)
        return say_finish(pipetrain_self_test());
    if (settings.restarts > 0)
        return supervise_run(&settings, argc, argv);
    settle_shape(&settings, &g);
    if (settings.check_reference != NULL)
        return say_finish(pipetrain_check_reference(&settings));
    return pipetrain_train(&settings);
}
