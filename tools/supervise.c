/* SPDX-License-Identifier: BSD-3-Clause */
/* supervise.c - start, wait for all that came of it, start again. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/progress.h"
#include "tools/say.h"
#include "tools/supervise.h"

enum { USAGE = 2, CANNOT_START = 127, KILLED = 128 };

/* What a command leaves behind ends by itself within this time, or is killed. */
static const double rest_seconds = 10;

typedef struct supervisor {
    const supervised *what;
    char **words; /* with room for --resume and NULL                            */
    const char *name;
    sigset_t signals;
    sigset_t before;
    pid_t child;
    int status; /* of the child, as waitpid() has it                          */
    int has_ended;
    int asked; /* a signal told it to end                                    */
} supervisor;

const char *supervise_folder(char *const *words, int count)
{
    static const char name[] = "--checkpoint";
    const size_t length = sizeof name - 1;
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], name, length) != 0)
            continue;
        if (words[i][length] == '=')
            found = words[i] + length + 1;
        else if (words[i][length] == 0 && i + 1 < count)
            found = words[i + 1];
    }
    return found;
}

static int has_checkpoint(const char *folder)
{
    static const char start[] = "step-";
    DIR *dir = opendir(folder);
    int found = 0;
    for (struct dirent *e; dir != NULL && !found && (e = readdir(dir)) != NULL;) {
        const char *digits = e->d_name + sizeof start - 1;
        found = strncmp(e->d_name, start, sizeof start - 1) == 0 && *digits != 0 &&
                digits[strspn(digits, "0123456789")] == 0;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* ---- starting -------------------------------------------------------------------- */

static void become_command(const supervisor *s, pid_t parent)
{
    const char *program = s->what->program;
    /* Nothing is to be left behind where this process is killed. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CANNOT_START);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    if (program != NULL)
        execv(program, s->words);
    else
        execvp(s->words[0], s->words);
    say_error("%s: %s", s->words[0], strerror(errno));
    _exit(CANNOT_START);
}

static int start(supervisor *s)
{
    const pid_t self = getpid();
    s->has_ended = 0;
    fflush(stdout);
    s->child = fork();
    if (s->child == 0)
        become_command(s, self);
    if (s->child < 0)
        say_error("%s: %s", s->words[0], strerror(errno));
    return s->child > 0;
}

/* ---- waiting --------------------------------------------------------------------- */

static void reap(supervisor *s)
{
    int status;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == s->child) {
            s->status = status;
            s->has_ended = 1;
        }
}

/* The next signal, or that `seconds` are over. */
static void wait_for_signal(supervisor *s, const struct timespec *limit)
{
    siginfo_t info;
    const int number = sigtimedwait(&s->signals, &info, limit);
    if (number <= 0 || number == SIGCHLD)
        return;
    s->asked = number;
    /* What a terminal sends goes to the command by itself. */
    if (!s->has_ended && info.si_code != SI_KERNEL)
        kill(s->child, number);
}

/* Those without a parent of their own are this process's. */
static int kill_children(void)
{
    char path[64], line[512];
    int killed = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *e; processes != NULL && (e = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%.20s/stat", e->d_name);
        FILE *file = fopen(path, "r");
        const size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file != NULL)
            fclose(file);
        line[length] = 0;
        const char *rest = strrchr(line, ')');
        char state;
        long parent;
        if (rest == NULL || sscanf(rest + 1, " %c %ld", &state, &parent) != 2)
            continue;
        if (parent == (long)getpid() && state != 'Z')
            killed += kill((pid_t)atol(e->d_name), SIGKILL) == 0;
    }
    if (processes != NULL)
        closedir(processes);
    return killed;
}

/* The command, and then all that it has started. */
static void wait_for_all(supervisor *s)
{
    const struct timespec moment = {.tv_nsec = 50000000}, second = {.tv_sec = 1};
    for (reap(s); !s->has_ended; reap(s))
        wait_for_signal(s, &second);
    const double end = progress_clock() + rest_seconds;
    int killed = 0;
    for (;;) {
        reap(s);
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            break;
        if (progress_clock() > end)
            killed += kill_children();
        wait_for_signal(s, &moment);
    }
    if (killed > 0)
        say_warning("%d process%s that %s had left behind did not end in %g s, and %s "
                    "killed",
                    killed, killed == 1 ? "" : "es", s->name, rest_seconds,
                    killed == 1 ? "was" : "were");
}

/* ---- deciding -------------------------------------------------------------------- */

static int exit_status(const supervisor *s)
{
    return WIFSIGNALED(s->status) ? KILLED + WTERMSIG(s->status)
                                  : WEXITSTATUS(s->status);
}

static void describe_end(const supervisor *s, char text[128])
{
    if (WIFSIGNALED(s->status))
        snprintf(text, 128, "%.80s was killed by signal %d", s->name,
                 WTERMSIG(s->status));
    else
        snprintf(text, 128, "%.80s ended with status %d", s->name,
                 WEXITSTATUS(s->status));
}

static void prepare_restart(supervisor *s, int count, int most)
{
    char why[128];
    const int resumes = has_checkpoint(s->what->folder);
    s->words[s->what->count] = resumes ? "--resume" : NULL;
    describe_end(s, why);
    say_error("restart %d of %d: %s; %s", count, most, why,
              resumes ? "it goes on with --resume"
                      : "it begins anew, since there is no checkpoint yet");
}

static int run_and_restart(supervisor *s, int restarts)
{
    for (int count = 0;;) {
        if (!start(s))
            return 1;
        wait_for_all(s);
        const int status = exit_status(s);
        if (status == 0 || status == USAGE || status == CANNOT_START || s->asked)
            return status;
        if (count == restarts) {
            char why[128];
            describe_end(s, why);
            say_error("%s, and %d restart%s did not help", why, restarts,
                      restarts == 1 ? "" : "s");
            return status;
        }
        prepare_restart(s, ++count, restarts);
    }
}

int supervise(const supervised *what, int restarts)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP};
    supervisor s = {.what = what};
    s.words = calloc((size_t)what->count + 2, sizeof *s.words);
    if (s.words == NULL) {
        say_error("no memory for a command");
        return 1;
    }
    memcpy(s.words, what->words, (size_t)what->count * sizeof *s.words);
    const char *slash = strrchr(s.words[0], '/');
    s.name = slash != NULL ? slash + 1 : s.words[0];
    sigemptyset(&s.signals);
    sigaddset(&s.signals, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&s.signals, passed_on[i]);
    sigprocmask(SIG_BLOCK, &s.signals, &s.before);
    /* What loses its parent, as processes whose launcher is killed, comes to this one.
     */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const int status = run_and_restart(&s, restarts);
    free(s.words);
    return status;
}
