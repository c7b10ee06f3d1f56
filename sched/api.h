/* SPDX-License-Identifier: BSD-3-Clause */
/* api.h - how Penstock's declarations are marked. */
#ifndef PENSTOCK_API_H
#define PENSTOCK_API_H

#ifdef __cplusplus
#define PST_BEGIN_DECLS extern "C" {
#define PST_END_DECLS   }
#else
#define PST_BEGIN_DECLS
#define PST_END_DECLS
#endif

#if defined(__GNUC__)
#define PST_API               __attribute__((visibility("default")))
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PST_API
#define PST_PRINTF(fmt, args)
#endif

#endif
