#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# count.sh - how many tests passed and failed in the last `make check` of a build
# folder. Of a Check program every test counts, of a script the script.
set -eu

build=${1-.}
passed=0
failed=0
skipped=0

for result in $(find "$build/tests" -name '*.trs' | sort); do
    outcome=$(sed -n 's/^:global-test-result: //p' "$result")
    summary=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' \
        "${result%.trs}.log" | tail -n 1)
    case $outcome in
    SKIP)
        skipped=$((skipped + 1))
        continue
        ;;
    PASS) bad=0 ;;
    *) bad=1 ;;
    esac
    if [ -n "$summary" ]; then
        # shellcheck disable=SC2086 # three numbers
        set -- $summary
        in_program=$(($2 + $3))
        # A program that says all is well and exits otherwise has failed.
        [ $in_program -ge "$bad" ] || in_program=$bad
        passed=$((passed + $1 - in_program))
        failed=$((failed + in_program))
    elif [ "$bad" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done

[ $skipped -eq 0 ] || echo "$skipped test programs were skipped"
echo "$passed passed, $failed failed"
[ $passed -gt 0 ] && [ $failed -eq 0 ]
