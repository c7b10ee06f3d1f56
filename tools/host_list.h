/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_list.h - the hosts that a launcher of MPI is given, and its command for fewer.
 *
 * Reads the command lines of Open MPI's mpirun and of MPICH's mpiexec (Hydra): one list
 * of hosts, or one file with a host a line, and one program. What is left of it is
 * written as it stood there.
 */
#ifndef PST_TOOLS_HOST_LIST_H
#define PST_TOOLS_HOST_LIST_H

#include <sys/types.h>

#include <penstock/error.h>

/* A command: `count` words, NULL, and room for one more. Some are the list's. */
typedef struct host_command {
    char **words;
    int count;
    int file;    /* that the launcher reads the hosts from; -1: none        */
    char *hosts; /* the word that gives them                                */
    char number[12];
    const char *left_out; /* the list of --workers, which is for other
                             processes than these; NULL: none was given        */
} host_command;

/* An item of the list, or a line of the file; a host may have several. */
typedef struct host_entry {
    char *text; /* as it was written                                           */
    char *name;
    int slots; /* processes it takes; 1 where that is not said             */
    int twin;  /* the first entry of the same host                         */
    host_command question;
    pid_t process; /* for the caller: that runs it                             */
    int gone;      /* and what came of it                                      */
} host_entry;

typedef struct host_list {
    char *const *words; /* borrowed: the command                               */
    int count;
    int launcher_at, hosts_at, processes_at, program_at; /* words, 0: none     */
    int is_file;   /* words[hosts_at] is the name of a file                    */
    int processes; /* 0: not given                                             */
    host_entry *entry;
    int entries; /* 0: the hosts cannot be told                                */
} host_list;

/* Of a command that starts `program`, a name without folders. Errors: PST_ENOMEM. */
pst_status host_list_read(char *const *words, int count, const char *program,
                          host_list *out, pst_error *err);
void host_list_fini(host_list *list);

/* How many processes the hosts that are not gone can take, at most as many as were
 * given; 0: their number was not given, and the launcher chooses it. */
int host_list_fit(const host_list *list);

/* Make the question to the host of an entry: the command that runs `true` once, there
 * alone. Errors: PST_ENOMEM, PST_ESYSTEM. */
pst_status host_list_ask(host_list *list, int entry, pst_error *err);

/* The command for those hosts that are not gone, and host_list_fit() processes. Errors:
 * as host_list_ask(). */
pst_status host_list_fewer(const host_list *list, host_command *out, pst_error *err);
void host_command_fini(host_command *command);

#endif
