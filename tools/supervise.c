/* SPDX-License-Identifier: BSD-3-Clause */
/* supervise.c - start, wait for all that came of it, start again, on the hosts that
 * answer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/host_list.h"
#include "tools/progress.h"
#include "tools/say.h"
#include "tools/supervise.h"

enum { USAGE = 2, CANNOT_START = 127, KILLED = 128 };

/* What a command leaves behind ends by itself within this time, or is killed. */
static const double rest_seconds = 10;

/* A host that runs nothing within this time is gone. */
static const double answer_seconds = 20;

typedef struct supervisor {
    const supervised *what;
    char **words; /* with room for --resume and NULL                            */
    int count;
    char **own_words;   /* the command as it was given                         */
    host_list hosts;    /* of that                                             */
    host_command fewer; /* for some of them                                    */
    const char *name;
    sigset_t signals;
    sigset_t before;
    pid_t child;
    int status; /* of the child, as waitpid() has it                          */
    int has_ended;
    double seen; /* when its program was last here; 0: never                      */
    int asked;   /* a signal told it to end                                    */
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
    s->seen = 0;
    fflush(stdout);
    s->child = fork();
    if (s->child == 0)
        become_command(s, self);
    if (s->child < 0)
        say_error("%s: %s", s->words[0], strerror(errno));
    return s->child > 0;
}

/* ---- waiting --------------------------------------------------------------------- */

static const struct timespec moment = {.tv_nsec = 50000000};

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

/* No child is left; those that are there after so long are killed, and counted. */
static int wait_for_rest(supervisor *s, double seconds)
{
    const double end = progress_clock() + seconds;
    int killed = 0;
    for (;;) {
        reap(s);
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return killed;
        if (progress_clock() >= end)
            killed += kill_children();
        wait_for_signal(s, &moment);
    }
}

static int is_program(long process)
{
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%ld/comm", process);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    const int is_read = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    name[strcspn(name, "\n")] = 0;
    return is_read && strcmp(name, say_program_name()) == 0;
}

/* True: what some thread of a process has started is the program, or has started it. */
static int runs_program(long process)
{
    char path[320];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%ld/task", process);
    DIR *threads = opendir(path);
    for (struct dirent *e;
         threads != NULL && !found && (e = readdir(threads)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%ld/task/%s/children", process, e->d_name);
        FILE *file = fopen(path, "r");
        for (long child; file != NULL && !found && fscanf(file, "%ld", &child) == 1;)
            found = is_program(child) || runs_program(child);
        if (file != NULL)
            fclose(file);
    }
    if (threads != NULL)
        closedir(threads);
    return found;
}

/* A launcher that a host cannot be reached from may wait for it without end, when its
 * processes here have given up. */
static void end_left_launcher(supervisor *s)
{
    if (s->hosts.entries == 0)
        return;
    if (runs_program((long)getpid()))
        s->seen = progress_clock();
    if (s->seen == 0 || progress_clock() - s->seen < rest_seconds)
        return;
    say_warning("%s went on for %g s after its processes on this host had ended, and "
                "was killed",
                s->name, rest_seconds);
    s->seen = 0;
    kill(s->child, SIGKILL);
}

/* The command, and then all that it has started. */
static void wait_for_all(supervisor *s)
{
    const struct timespec second = {.tv_sec = 1};
    for (reap(s); !s->has_ended; reap(s)) {
        wait_for_signal(s, &second);
        end_left_launcher(s);
    }
    const int killed = wait_for_rest(s, rest_seconds);
    if (killed > 0)
        say_warning("%d process%s that %s had left behind did not end in %g s, and %s "
                    "killed",
                    killed, killed == 1 ? "" : "es", s->name, rest_seconds,
                    killed == 1 ? "was" : "were");
}

/* ---- hosts that are gone --------------------------------------------------------- */

static void become_question(const supervisor *s, char **words)
{
    const int nothing = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(nothing, fd);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    execvp(words[0], words);
    _exit(CANNOT_START);
}

/* Let each host run something, all at once. What cannot be asked counts as gone. */
static pst_status ask_hosts(supervisor *s, pst_error *err)
{
    for (int i = 0; i < s->hosts.entries; i++) {
        host_entry *e = &s->hosts.entry[i];
        e->gone = 1;
        if (e->twin != i)
            continue;
        const pst_status status = host_list_ask(&s->hosts, i, err);
        if (status != PST_OK)
            return status;
        e->process = fork();
        if (e->process == 0)
            become_question(s, e->question.words);
    }
    return PST_OK;
}

/* How many hosts have answered, after all have or the time for it is over. */
static int await_answers(supervisor *s)
{
    const double end = progress_clock() + answer_seconds;
    int open = 1, answered = 0;
    while (open > 0 && !s->asked && progress_clock() < end) {
        int status;
        for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
            for (int i = 0; i < s->hosts.entries; i++)
                if (s->hosts.entry[i].process == ended) {
                    s->hosts.entry[i].process = 0;
                    s->hosts.entry[i].gone = status != 0;
                }
        open = 0;
        for (int i = 0; i < s->hosts.entries; i++)
            open += s->hosts.entry[i].process > 0;
        if (open > 0)
            wait_for_signal(s, &moment);
    }
    wait_for_rest(s, 0);
    for (int i = 0; i < s->hosts.entries; i++) {
        host_entry *e = &s->hosts.entry[i];
        e->gone = s->hosts.entry[e->twin].gone;
        answered += e->twin == i && !e->gone;
    }
    return answered;
}

/* Those that are gone or not, with commas; returns how many. */
static int name_hosts(const host_list *list, int gone, char *text, size_t room)
{
    size_t length = 0;
    int count = 0;
    text[0] = 0;
    for (int i = 0; i < list->entries; i++) {
        const host_entry *e = &list->entry[i];
        if (e->twin != i || e->gone != gone)
            continue;
        if (length < room)
            length += (size_t)snprintf(text + length, room - length, "%s%s",
                                       count > 0 ? ", " : "", e->name);
        count++;
    }
    return count;
}

static void tell_hosts(const supervisor *s)
{
    char gone[512], left[512], processes[64] = "it goes on";
    const int count = name_hosts(&s->hosts, 1, gone, sizeof gone);
    const int fit = host_list_fit(&s->hosts);
    const char *without = s->fewer.left_out;
    name_hosts(&s->hosts, 0, left, sizeof left);
    if (fit > 0)
        snprintf(processes, sizeof processes, "%d process%s go%s on", fit,
                 fit == 1 ? "" : "es", fit == 1 ? "es" : "");
    say_error("%s do%s not answer: %s, on %s%s%s", gone, count == 1 ? "es" : "",
              processes, left, without != NULL ? ", without --workers " : "",
              without != NULL ? without : "");
}

/* Not of a run without a launcher. */
static pst_status read_hosts(supervisor *s, pst_error *err)
{
    host_command_fini(&s->fewer);
    host_list_fini(&s->hosts);
    s->words = s->own_words;
    s->count = s->what->count;
    if (s->what->program != NULL)
        return PST_OK;
    return host_list_read(s->what->words, s->count, say_program_name(), &s->hosts, err);
}

/* The command for the hosts that are there now, those that have come back as well. */
static pst_status choose_hosts(supervisor *s, pst_error *err)
{
    pst_status status = read_hosts(s, err);
    if (status != PST_OK || s->hosts.entries == 0)
        return status;
    status = ask_hosts(s, err);
    const int answered = await_answers(s);
    int all = 0;
    for (int i = 0; i < s->hosts.entries; i++)
        all += s->hosts.entry[i].twin == i;
    if (status != PST_OK || s->asked || answered == all)
        return status;
    if (answered == 0)
        return pst_error_set(err, PST_EPEER,
                             "no host of %s has run 'true' within %g s, and there is "
                             "none to go on",
                             s->words[s->hosts.hosts_at], answer_seconds);
    status = host_list_fewer(&s->hosts, &s->fewer, err);
    if (status != PST_OK)
        return status;
    s->words = s->fewer.words;
    s->count = s->fewer.count;
    tell_hosts(s);
    return PST_OK;
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

static pst_status prepare_restart(supervisor *s, int count, int most, pst_error *err)
{
    static char resume[] = "--resume";
    char why[128];
    const int resumes = has_checkpoint(s->what->folder);
    describe_end(s, why);
    say_error("restart %d of %d: %s; %s", count, most, why,
              resumes ? "it goes on with --resume"
                      : "it begins anew, since there is no checkpoint yet");
    const pst_status status = choose_hosts(s, err);
    if (status == PST_OK)
        s->words[s->count] = resumes ? resume : NULL;
    return status;
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
        pst_error err = PST_ERROR_INIT;
        if (prepare_restart(s, ++count, restarts, &err) != PST_OK)
            return say_failure(&err);
        if (s->asked)
            return status;
    }
}

/* What loses its parent, as processes whose launcher is killed, comes to this one. */
static void watch_children(supervisor *s)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP};
    sigemptyset(&s->signals);
    sigaddset(&s->signals, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&s->signals, passed_on[i]);
    sigprocmask(SIG_BLOCK, &s->signals, &s->before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int supervise(const supervised *what, int restarts)
{
    pst_error err = PST_ERROR_INIT;
    supervisor s = {.what = what, .fewer = {.file = -1}};
    s.own_words = calloc((size_t)what->count + 2, sizeof *s.own_words);
    if (s.own_words == NULL) {
        say_error("no memory for a command");
        return 1;
    }
    memcpy(s.own_words, what->words, (size_t)what->count * sizeof *s.own_words);
    const char *slash = strrchr(s.own_words[0], '/');
    s.name = slash != NULL ? slash + 1 : s.own_words[0];
    watch_children(&s);
    const int status = read_hosts(&s, &err) == PST_OK ? run_and_restart(&s, restarts)
                                                      : say_failure(&err);
    host_command_fini(&s.fewer);
    host_list_fini(&s.hosts);
    free(s.own_words);
    return status;
}
