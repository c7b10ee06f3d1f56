/* SPDX-License-Identifier: BSD-3-Clause */
/* supervise.h - starts a training again when it has failed. */
#ifndef PST_TOOLS_SUPERVISE_H
#define PST_TOOLS_SUPERVISE_H

typedef struct supervised {
    char *const *words; /* a command; ends in --resume where it is to go on        */
    int count;
    const char *program; /* a path; NULL: words[0], to be looked for                */
    const char *folder;  /* of its checkpoints, as this program sees it             */
} supervised;

/* The folder that the words give with --checkpoint; NULL: none. */
const char *supervise_folder(char *const *words, int count);

/*
 * Run the command, and again up to `restarts` times where it fails: not when it was
 * told to end by a signal to this process, which is passed on, nor when the command
 * line is wrong (2). Before it starts anew, all processes that it has left behind have
 * ended. A line of each restart goes to standard error. Returns the exit status.
 */
int supervise(const supervised *what, int restarts);

#endif
