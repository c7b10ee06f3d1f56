/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fail_malloc.c - for LD_PRELOAD: runs a program once for each of its allocations, and
 * lets that one fail.
 *
 * With FAIL_MALLOC_FOLDER=DIR main() is called in a child for n = 0, 1, 2, ... until a
 * child has fewer than n allocations; none fails where n is 0. Child n runs in DIR/n,
 * where "out" and "err" are what it printed, and "status" has its exit status (128 +
 * the signal that ended it), its allocations, and the blocks that it has not given
 * back. FAIL_MALLOC_EVERY=K takes each K-th only, FAIL_MALLOC_FIRST=N begins with n =
 * N, and FAIL_MALLOC_BEFORE=COMMAND is run in DIR/n first. Without the first variable
 * nothing happens.
 *
 * An allocation counts where the nearest caller outside the C library is the program or
 * a library of FAIL_MALLOC_IN, or one of these called a function of
 * FAIL_MALLOC_THROUGH: beginnings of names with blanks between them. What else other
 * libraries do when their memory is out is theirs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

typedef int (*main_function)(int argc, char **argv, char **envp);

enum { MOST_BLOCKS = 1 << 14, LOADING_BYTES = 1 << 16, SECONDS_A_CHILD = 60 };

/* What the caller has of a child when it has ended. */
typedef struct outcome {
    long calls;
    long live;
    void *block[MOST_BLOCKS]; /* hashed by address; NULL: free                   */
} outcome;

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
} real;

static char output_room[1 << 16];
static bool loading;
static _Alignas(64) char loading_room[LOADING_BYTES]; /* for what dlsym() takes     */
static size_t loading_used;

static main_function real_main;
static const char *libraries;
static const char *functions;
static const char *program; /* file name, as dladdr() gives it                    */
static outcome *here;       /* NULL: nothing is counted                           */
static long fail_at;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;

/* Objects of this package are compiled with hidden symbols. */
#define REPLACES __attribute__((visibility("default")))

/* ---- the allocator below --------------------------------------------------------- */

static void find(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

static bool ready(void)
{
    if (real.free)
        return true;
    if (loading)
        return false;
    loading = true;
    find(&real.malloc, "malloc");
    find(&real.calloc, "calloc");
    find(&real.realloc, "realloc");
    find(&real.aligned_alloc, "aligned_alloc");
    find(&real.posix_memalign, "posix_memalign");
    find(&real.free, "free");
    loading = false;
    return true;
}

static void *loading_block(size_t bytes)
{
    const size_t whole = (bytes + 63) / 64 * 64;
    if (whole > LOADING_BYTES - loading_used)
        return NULL;
    loading_used += whole;
    return loading_room + loading_used - whole;
}

static bool is_loading_block(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)loading_room < LOADING_BYTES;
}

/* ---- who calls ------------------------------------------------------------------- */

/* The file's name, after its folders, begins with a word of the list. */
static bool is_listed(const char *file, const char *list)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    while (*list) {
        const size_t length = strcspn(list, " ");
        if (length > 0 && strncmp(name, list, length) == 0)
            return true;
        list += length + (list[length] == ' ');
    }
    return false;
}

typedef struct origin {
    bool counts;
    bool is_kept;    /* what a thread needs stays with the C library for the next one */
    char called[64]; /* by us, in another's library                                */
} origin;

static _Unwind_Reason_Code look_at(struct _Unwind_Context *frame, void *user)
{
    origin *from = user;
    Dl_info about;
    /* The address behind a call may be that of the next function. */
    if (!dladdr((void *)(_Unwind_GetIP(frame) - 1), &about) || !about.dli_fname ||
        is_listed(about.dli_fname, "fail_malloc libc.so libc- libpthread"))
        return _URC_NO_REASON;
    if (is_listed(about.dli_fname, "ld-")) {
        from->is_kept = true;
    } else if (strcmp(about.dli_fname, program) == 0 ||
               is_listed(about.dli_fname, libraries)) {
        from->counts = from->called[0] == '\0' || is_listed(from->called, functions);
        return _URC_NORMAL_STOP;
    } else {
        snprintf(from->called, sizeof from->called, "%s",
                 about.dli_sname ? about.dli_sname : "?");
    }
    return _URC_NO_REASON;
}

static origin find_origin(void)
{
    origin from = {.counts = false};
    _Unwind_Backtrace(look_at, &from);
    return from;
}

/* ---- counting -------------------------------------------------------------------- */

static size_t place_of(const void *memory)
{
    size_t at = (uintptr_t)memory / 16 % MOST_BLOCKS;
    while (here->block[at] && here->block[at] != memory)
        at = (at + 1) % MOST_BLOCKS;
    return at;
}

static void forget(const void *memory)
{
    pthread_mutex_lock(&one_at_a_time);
    size_t hole = place_of(memory);
    if (here->block[hole]) {
        here->live--;
        here->block[hole] = NULL;
        /* What stood behind it moves up, so that it is found again. */
        for (size_t at = (hole + 1) % MOST_BLOCKS; here->block[at];
             at = (at + 1) % MOST_BLOCKS) {
            void *moved = here->block[at];
            here->block[at] = NULL;
            here->block[place_of(moved)] = moved;
        }
    }
    pthread_mutex_unlock(&one_at_a_time);
}

static void remember(void *memory)
{
    pthread_mutex_lock(&one_at_a_time);
    const size_t at = place_of(memory);
    if (!here->block[at] && here->live < MOST_BLOCKS / 2) {
        here->block[at] = memory;
        here->live++;
    }
    pthread_mutex_unlock(&one_at_a_time);
}

/* Is the call that asks the one to fail? Else, is its block to be remembered? */
static bool enter(bool *to_remember)
{
    *to_remember = false;
    if (!here || inside)
        return false;
    inside = true;
    const origin from = find_origin();
    inside = false;
    pthread_mutex_lock(&one_at_a_time);
    here->calls += from.counts;
    const bool fails = from.counts && here->calls == fail_at;
    pthread_mutex_unlock(&one_at_a_time);
    *to_remember = from.counts && !from.is_kept;
    if (fails)
        errno = ENOMEM; /* the place for a breakpoint */
    return fails;
}

static void *leave(bool to_remember, void *memory)
{
    if (to_remember && memory)
        remember(memory);
    return memory;
}

REPLACES void *malloc(size_t bytes)
{
    bool to_remember;
    if (!ready())
        return loading_block(bytes);
    return enter(&to_remember) ? NULL : leave(to_remember, real.malloc(bytes));
}

REPLACES void *calloc(size_t count, size_t bytes)
{
    bool to_remember;
    if (!ready())
        return loading_block(count * bytes);
    return enter(&to_remember) ? NULL : leave(to_remember, real.calloc(count, bytes));
}

REPLACES void *realloc(void *memory, size_t bytes)
{
    bool to_remember;
    if (!ready() || is_loading_block(memory))
        return NULL;
    if (enter(&to_remember))
        return NULL;
    if (here && memory)
        forget(memory);
    return leave(to_remember, real.realloc(memory, bytes));
}

REPLACES void *aligned_alloc(size_t alignment, size_t bytes)
{
    bool to_remember;
    if (!ready())
        return NULL;
    return enter(&to_remember)
               ? NULL
               : leave(to_remember, real.aligned_alloc(alignment, bytes));
}

REPLACES int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    bool to_remember;
    const int before = errno;
    if (!ready() || enter(&to_remember)) {
        errno = before;
        return ENOMEM;
    }
    const int refused = real.posix_memalign(memory, alignment, bytes);
    if (!refused)
        leave(to_remember, *memory);
    return refused;
}

REPLACES void free(void *memory)
{
    if (!memory || is_loading_block(memory) || !ready())
        return;
    if (here)
        forget(memory);
    real.free(memory);
}

/* ---- one child after the other --------------------------------------------------- */

static void give_up(const char *what)
{
    perror(what);
    _exit(99);
}

static void print_to(const char *name, int file)
{
    const int opened = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (opened < 0 || dup2(opened, file) < 0 || close(opened) != 0)
        give_up(name);
}

static void enter_folder(long number)
{
    char name[32];
    const char *before = getenv("FAIL_MALLOC_BEFORE");
    snprintf(name, sizeof name, "%ld", number);
    if (mkdir(name, 0777) != 0 || chdir(name) != 0)
        give_up(name);
    if (before && system(before) != 0)
        give_up(before);
}

static void write_status(const outcome *o, int status)
{
    FILE *file = fopen("status", "w");
    if (!file)
        give_up("status");
    fprintf(file, "%d %ld %ld\n",
            WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
            o->calls, o->live);
    if (fclose(file) != 0)
        give_up("status");
}

/* In the child: calls main(), and comes back with its exit status. */
static int run_child(long number, outcome *shared, int argc, char **argv, char **envp)
{
    print_to("out", STDOUT_FILENO);
    print_to("err", STDERR_FILENO);
    /* Else its buffer would be a block that the program never gives back. */
    setvbuf(stdout, output_room, _IOFBF, sizeof output_room);
    alarm(SECONDS_A_CHILD);
    fail_at = number;
    here = shared;
    return real_main(argc, argv, envp);
}

static const char *text_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? text : "";
}

static long number_in(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text ? atol(text) : otherwise;
}

static int each_in_turn(int argc, char **argv, char **envp)
{
    const char *folder = getenv("FAIL_MALLOC_FOLDER");
    if (!folder)
        return real_main(argc, argv, envp);
    Dl_info about;
    void *address;
    memcpy(&address, &real_main, sizeof address);
    program = dladdr(address, &about) ? about.dli_fname : argv[0];
    libraries = text_in("FAIL_MALLOC_IN");
    functions = text_in("FAIL_MALLOC_THROUGH");
    unsetenv("LD_PRELOAD");
    outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || chdir(folder) != 0)
        give_up(folder);
    const long step = number_in("FAIL_MALLOC_EVERY", 1);
    long number = number_in("FAIL_MALLOC_FIRST", 0);
    for (bool failed = true; failed; number += number > 0 ? step : 1) {
        int status = 0;
        memset(shared, 0, sizeof *shared);
        enter_folder(number);
        const pid_t child = fork();
        if (child == 0)
            return run_child(number, shared, argc, argv, envp);
        if (child < 0 || waitpid(child, &status, 0) != child)
            give_up("a child");
        write_status(shared, status);
        if (chdir("..") != 0)
            give_up(folder);
        failed = shared->calls >= number;
    }
    _exit(0);
}

REPLACES int __libc_start_main(main_function, int, char **, void (*)(void),
                               void (*)(void), void (*)(void), void *);

/* What a program's first instructions call. */
REPLACES int __libc_start_main(main_function own_main, int argc, char **argv,
                               void (*init)(void), void (*fini)(void),
                               void (*rtld_fini)(void), void *stack_end)
{
    int (*start)(main_function, int, char **, void (*)(void), void (*)(void),
                 void (*)(void), void *);
    find(&start, "__libc_start_main");
    real_main = own_main;
    return start(each_in_turn, argc, argv, init, fini, rtld_fini, stack_end);
}
