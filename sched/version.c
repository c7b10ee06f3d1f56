/* SPDX-License-Identifier: BSD-3-Clause */
/* version.c - the version of the library that is running. */
#include <penstock/version.h>

int pst_version(void)
{
    return PST_VERSION;
}

const char *pst_version_string(void)
{
    return PST_VERSION_STRING;
}
