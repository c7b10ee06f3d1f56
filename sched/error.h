/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.h - what went wrong, as a code to decide by and a sentence to show.
 *
 * A pst_error lives in its caller's memory and works when memory is out. Every
 * `pst_error *` argument may be NULL. An error is untouched on success, and the
 * first one set wins: pst_error_set() does nothing to an error that is set.
 * Start with `pst_error err = PST_ERROR_INIT;`.
 */
#ifndef PENSTOCK_ERROR_H
#define PENSTOCK_ERROR_H

#include <penstock/api.h>

PST_BEGIN_DECLS

typedef enum pst_status {
    PST_OK = 0,
    PST_EINVAL,    /* an argument, or arguments that do not fit each other     */
    PST_ENOMEM,    /* the allocator returned NULL                              */
    PST_EIO,       /* the system refused a file operation                      */
    PST_EFORMAT,   /* a file is not what it claims or ought to be              */
    PST_ESCHEDULE, /* an action list is not valid                              */
    PST_EDEADLOCK, /* an action list waits for itself                          */
    PST_ECALLBACK, /* a stage's callback failed                                */
    PST_ETIMEOUT,  /* nothing moved for longer than the watchdog's limit       */
    PST_ENUMERIC,  /* a NaN or an infinity where none may be                   */
    PST_ESYSTEM,   /* threads, topology or another library refused             */
    PST_EPEER,     /* another process failed, or is gone                       */
    PST_STATUS_COUNT
} pst_status;

typedef struct pst_error {
    pst_status status;
    int line;       /* in `file`, from 1; 0: none                              */
    char file[192]; /* empty: none                                             */
    char text[832]; /* one sentence, no final full stop or newline             */
} pst_error;

#define PST_ERROR_INIT                                                                 \
    {                                                                                  \
        PST_OK, 0, {0},                                                                \
        {                                                                              \
            0                                                                          \
        }                                                                              \
    }

/*
 * Fill `err` unless it is NULL or already set, and return `status`, so that a
 * function may end in `return pst_error_set(err, PST_EINVAL, "...", ...)`.
 * The sentence says what was found, the rule, and what would work. Text that
 * does not fit is cut.
 */
PST_API pst_status pst_error_set(pst_error *err, pst_status status, const char *format,
                                 ...) PST_PRINTF(3, 4);

/* As pst_error_set, for a place in a file. `file` is copied; NULL or line 0: none. */
PST_API pst_status pst_error_set_at(pst_error *err, pst_status status, const char *file,
                                    int line, const char *format, ...) PST_PRINTF(5, 6);

/* "no memory for `what` (N bytes)" as PST_ENOMEM. */
PST_API pst_status pst_error_no_memory(pst_error *err, const char *what,
                                       unsigned long long bytes);

/* Two or three words for a status ("invalid argument"); never NULL. */
PST_API const char *pst_status_text(pst_status status);

PST_END_DECLS

#endif
