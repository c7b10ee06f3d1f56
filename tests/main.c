/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - runs the suite of one test program.
 *
 * CK_RUN_SUITE, CK_RUN_CASE, CK_VERBOSITY and CK_FORK=no work as in Check's manual.
 */
#include <stdlib.h>

#include "tests/suite.h"

int main(void)
{
    /* Check's own 4 s are too few on a machine that does other things as well. */
    setenv("CK_DEFAULT_TIMEOUT", "60", 0);
    SRunner *runner = srunner_create(pst_test_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
