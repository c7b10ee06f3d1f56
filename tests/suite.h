/* SPDX-License-Identifier: BSD-3-Clause */
/* suite.h - what a test program gives to main.c. */
#ifndef PST_TESTS_SUITE_H
#define PST_TESTS_SUITE_H

#include <check.h>

/* The runner's from then on. */
Suite *pst_test_suite(void);

#endif
