/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - filling an error, once. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <penstock/error.h>

static pst_status fill(pst_error *err, pst_status status, const char *file, int line,
                       const char *format, va_list args)
{
    if (err == NULL || err->status != PST_OK)
        return status;
    err->status = status;
    err->line = line;
    snprintf(err->file, sizeof err->file, "%s", file != NULL ? file : "");
    vsnprintf(err->text, sizeof err->text, format, args);
    return status;
}

pst_status pst_error_set(pst_error *err, pst_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, NULL, 0, format, args);
    va_end(args);
    return status;
}

pst_status pst_error_set_at(pst_error *err, pst_status status, const char *file,
                            int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, status, file, line, format, args);
    va_end(args);
    return status;
}

pst_status pst_error_no_memory(pst_error *err, const char *what,
                               unsigned long long bytes)
{
    return pst_error_set(err, PST_ENOMEM, "no memory for %s (%llu bytes)", what, bytes);
}

const char *pst_status_text(pst_status status)
{
    static const char *const texts[PST_STATUS_COUNT] = {
        [PST_OK] = "success",
        [PST_EINVAL] = "invalid argument",
        [PST_ENOMEM] = "out of memory",
        [PST_EIO] = "input or output failed",
        [PST_EFORMAT] = "malformed file",
        [PST_ESCHEDULE] = "invalid schedule",
        [PST_EDEADLOCK] = "deadlock",
        [PST_ECALLBACK] = "stage failed",
        [PST_ETIMEOUT] = "timed out",
        [PST_ENUMERIC] = "not a finite number",
        [PST_ESYSTEM] = "the system refused",
        [PST_EPEER] = "another process failed",
    };
    if ((int)status < 0 || status >= PST_STATUS_COUNT)
        return "unknown status";
    return texts[status];
}
