/* SPDX-License-Identifier: BSD-3-Clause */
/* host_list.c - reads and rewrites the command line of a launcher. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/host_list.h"
#include <penstock/file.h>

typedef enum option_kind { OTHER, LIST, FILE_NAME, PROCESSES, UNTOLD } option_kind;

/* Of both launchers, with one dash or two; `UNTOLD` says elsewhere what runs where. */
static const struct {
    const char *name;
    option_kind kind;
} launcher_options[] = {
    {"H", LIST},
    {"host", LIST},
    {"hosts", LIST},
    {"hostlist", LIST},
    {"f", FILE_NAME},
    {"hostfile", FILE_NAME},
    {"machinefile", FILE_NAME},
    {"n", PROCESSES},
    {"np", PROCESSES},
    {"c", PROCESSES},
    {"app", UNTOLD},
    {"configfile", UNTOLD},
    {"rf", UNTOLD},
    {"rankfile", UNTOLD},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int is_launcher(const char *word)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(base_name(word), names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* The path of a folder is the value of some option. */
static int is_program(const char *word, const char *program)
{
    struct stat found;
    return strcmp(base_name(word), program) == 0 &&
           (strchr(word, '/') == NULL || stat(word, &found) != 0 ||
            !S_ISDIR(found.st_mode));
}

static option_kind kind_of(const char *word)
{
    if (*word != '-')
        return OTHER;
    word += word[1] == '-' ? 2 : 1;
    for (size_t i = 0; i < sizeof launcher_options / sizeof *launcher_options; i++)
        if (strcmp(word, launcher_options[i].name) == 0)
            return launcher_options[i].kind;
    return OTHER;
}

/* ---- reading --------------------------------------------------------------------- */

/* True: all of it is a number above 0 that can be one of processes. */
static int read_count(const char *text, int *out)
{
    char *end;
    const long count = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != 0 || count < 1 || count > 1000000)
        return 0;
    *out = (int)count;
    return 1;
}

/* Of what stands behind a host in a file of Open MPI's: "slots=2", "slots = 2". */
static int read_slots(const char *rest)
{
    static const char name[] = "slots";
    const char *end = rest + strcspn(rest, "#");
    for (const char *at = rest; (at = strstr(at, name)) != NULL && at < end; at++) {
        const char *value = at + sizeof name - 1;
        value += strspn(value, " \t=");
        const long count = strtol(value, NULL, 10);
        if (isspace((unsigned char)at[-1]) && count > 0 && count < 1000000)
            return (int)count;
    }
    return 1;
}

/* NAME, NAME:COUNT, and in a file what comes behind; false: no memory. */
static int add_entry(host_list *list, const char *text, size_t length)
{
    host_entry *e = &list->entry[list->entries];
    const size_t named = strcspn(text, " \t\r,\n#");
    e->text = strndup(text, length);
    e->name = strndup(text, named < length ? named : length);
    if (e->text == NULL || e->name == NULL) {
        free(e->text);
        free(e->name);
        return 0;
    }
    e->question.file = -1;
    e->slots = 1;
    char *colon = strchr(e->name, ':');
    /* An IPv6 address has several. */
    if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        read_count(colon + 1, &e->slots);
        *colon = 0;
    } else if (list->is_file && named < length) {
        e->slots = read_slots(e->text + named);
    }
    e->twin = 0;
    while (strcmp(list->entry[e->twin].name, e->name) != 0)
        e->twin++;
    list->entries++;
    return 1;
}

static void forget_entries(host_list *list)
{
    for (int i = 0; i < list->entries; i++) {
        free(list->entry[i].text);
        free(list->entry[i].name);
        host_command_fini(&list->entry[i].question);
    }
    free(list->entry);
    list->entry = NULL;
    list->entries = 0;
}

/* Each of `text` between separators, but for comments and what is empty. */
static pst_status read_entries(host_list *list, const char *text, pst_error *err)
{
    const char *separator = list->is_file ? "\n" : ",";
    size_t most = 1;
    for (const char *at = text; *at != 0; at++)
        most += *at == *separator;
    list->entry = calloc(most, sizeof *list->entry);
    if (list->entry == NULL)
        return pst_error_no_memory(err, "a list of hosts", most * sizeof *list->entry);
    for (size_t length; *text != 0; text += length + (text[length] != 0)) {
        text += strspn(text, " \t\r");
        length = strcspn(text, separator);
        if (length == 0 || *text == '#')
            continue;
        if (!add_entry(list, text, length)) {
            forget_entries(list);
            return pst_error_no_memory(err, "a host's name", length);
        }
    }
    /* Open MPI's "+n1" is a host of a list elsewhere, "^node1" is none. */
    for (int i = 0; i < list->entries; i++)
        if (strchr("+^", list->entry[i].name[0]) != NULL) {
            forget_entries(list);
            break;
        }
    return PST_OK;
}

/* Where the words are that matter; true: there is one of each. */
static int find_words(host_list *list, const char *program)
{
    int at = 0;
    while (at < list->count && !is_launcher(list->words[at]))
        at++;
    list->launcher_at = at;
    for (at++; at < list->count && !is_program(list->words[at], program); at++) {
        const option_kind kind = kind_of(list->words[at]);
        /* What starts the program may have a -n of its own, as nice has. */
        if (kind == OTHER || (kind == PROCESSES && list->processes_at != 0))
            continue;
        int *place = kind == PROCESSES ? &list->processes_at : &list->hosts_at;
        if (kind == UNTOLD || *place != 0 || ++at == list->count)
            return 0;
        *place = at;
        if (kind == FILE_NAME)
            list->is_file = 1;
        if (kind == PROCESSES && !read_count(list->words[at], &list->processes))
            return 0;
    }
    list->program_at = at;
    /* Several programs, each with its processes. */
    for (int i = at; i < list->count; i++)
        if (strcmp(list->words[i], ":") == 0)
            return 0;
    return at < list->count && list->hosts_at != 0;
}

pst_status host_list_read(char *const *words, int count, const char *program,
                          host_list *out, pst_error *err)
{
    *out = (host_list){.words = words, .count = count};
    if (!find_words(out, program))
        return PST_OK;
    if (!out->is_file)
        return read_entries(out, words[out->hosts_at], err);
    char *text;
    size_t bytes;
    pst_error unread = PST_ERROR_INIT;
    /* The launcher will say why it cannot be read. */
    if (pst_file_read(NULL, words[out->hosts_at], 0, &text, &bytes, &unread) != PST_OK)
        return PST_OK;
    const pst_status status = read_entries(out, text, err);
    pst_release(NULL, text);
    return status;
}

void host_list_fini(host_list *list)
{
    forget_entries(list);
}

/* ---- writing --------------------------------------------------------------------- */

int host_list_fit(const host_list *list)
{
    long all = 0, left = 0;
    for (int i = 0; i < list->entries; i++) {
        all += list->entry[i].slots;
        left += list->entry[i].gone ? 0 : list->entry[i].slots;
    }
    if (left == all || list->processes == 0)
        return list->processes;
    /* Hosts that had more than their numbers say go on with their share. */
    const long fit = list->processes > all ? list->processes * left / all : left;
    return fit < 1 ? 1 : fit < list->processes ? (int)fit : list->processes;
}

/* All of one host, or those that are not gone where `twin` is -1. */
static int is_wanted(const host_entry *entry, int twin)
{
    return twin < 0 ? !entry->gone : entry->twin == twin;
}

/* The entries between separators; NULL: no memory. */
static char *join(const host_list *list, int twin)
{
    size_t room = 1;
    for (int i = 0; i < list->entries; i++)
        room += strlen(list->entry[i].text) + 1;
    char *text = malloc(room), *end = text;
    if (text == NULL)
        return NULL;
    *end = 0;
    for (int i = 0; i < list->entries; i++)
        if (is_wanted(&list->entry[i], twin))
            end += sprintf(end, "%s%s",
                           end == text     ? ""
                           : list->is_file ? "\n"
                                           : ",",
                           list->entry[i].text);
    return text;
}

/* A file without a place, which goes away with this process. The launcher, a child,
 * finds it by number. */
static pst_status write_file(host_command *command, pst_error *err)
{
    char path[64];
    const size_t bytes = strlen(command->hosts);
    command->file = memfd_create("hosts", MFD_CLOEXEC);
    if (command->file < 0 ||
        write(command->file, command->hosts, bytes) != (ssize_t)bytes ||
        write(command->file, "\n", 1) != 1)
        return pst_error_set(err, PST_ESYSTEM, "a list of hosts cannot be written: %m");
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), command->file);
    free(command->hosts);
    command->hosts = strdup(path);
    return command->hosts != NULL ? PST_OK
                                  : pst_error_no_memory(err, "a file's name", 64);
}

/* The launcher's part, for such hosts and a number of processes, 0: none is said. */
static pst_status write_launcher(const host_list *list, int twin, int processes,
                                 host_command *out, pst_error *err)
{
    const size_t room = (size_t)list->count + 4;
    *out = (host_command){.file = -1, .words = calloc(room, sizeof *out->words)};
    out->hosts = join(list, twin);
    if (out->words == NULL || out->hosts == NULL) {
        host_command_fini(out);
        return pst_error_no_memory(err, "a command", room * sizeof *out->words);
    }
    const pst_status status = list->is_file ? write_file(out, err) : PST_OK;
    if (status != PST_OK) {
        host_command_fini(out);
        return status;
    }
    snprintf(out->number, sizeof out->number, "%d", processes);
    for (int i = 0; i < list->program_at; i++) {
        static char n[] = "-n";
        char *word = list->words[i];
        out->words[out->count++] = i == list->hosts_at ? out->hosts : word;
        if (i != 0 && i == list->processes_at)
            out->words[out->count - 1] = out->number;
        if (i == list->launcher_at && list->processes_at == 0 && processes > 0) {
            out->words[out->count++] = n;
            out->words[out->count++] = out->number;
        }
    }
    return PST_OK;
}

pst_status host_list_ask(host_list *list, int entry, pst_error *err)
{
    static char program[] = "true";
    host_entry *e = &list->entry[entry];
    host_command_fini(&e->question);
    const pst_status status = write_launcher(list, e->twin, 1, &e->question, err);
    if (status == PST_OK)
        e->question.words[e->question.count++] = program;
    return status;
}

/* True: the list of --workers says something of each of so many processes. */
static int is_for(const char *workers, int processes)
{
    int count = 1;
    for (; *workers != 0; workers++)
        count += *workers == ',';
    return count == processes;
}

pst_status host_list_fewer(const host_list *list, host_command *out, pst_error *err)
{
    static const char name[] = "--workers";
    const size_t length = sizeof name - 1;
    const int processes = host_list_fit(list);
    const pst_status status = write_launcher(list, -1, processes, out, err);
    if (status != PST_OK)
        return status;
    for (int i = list->program_at; i < list->count; i++) {
        char *word = list->words[i];
        const int has_value = strncmp(word, name, length) == 0 && word[length] == '=';
        const int is_alone = strcmp(word, name) == 0 && i + 1 < list->count;
        const char *workers = has_value ? word + length + 1 : list->words[i + is_alone];
        if ((has_value || is_alone) && !is_for(workers, processes)) {
            out->left_out = workers;
            i += is_alone;
            continue;
        }
        out->words[out->count++] = word;
    }
    return PST_OK;
}

void host_command_fini(host_command *command)
{
    if (command->file >= 0)
        close(command->file);
    free(command->hosts);
    free(command->words);
    *command = (host_command){.file = -1};
}
