#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# quota.sh - where CPUs may be used in part only, the budget is stated and the weights
# are the same: cgroups with the quota of one CPU and of half a one, and one CPU.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
make_text 200 >text
cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)

# digest STAGES: what a run without any limit ends in.
digest() {
    train --digest --stages "$1" --bind none 2>&1 | sed -n 's/^digest //p'
}
plain2=$(digest 2)
plain4=$(digest 4)
same 'the digest to compare with' 71 "${#plain2}"
same 'stages do not change it' "$plain2" "$plain4"

# ends_alike WHAT BUDGET COMMAND...: the same weights, this budget, nothing to warn of.
ends_alike() {
    alike_what=$1 alike_budget=$2
    shift 2
    expect 0 - '' "$@"
    same "$alike_what: the weights" "$plain2" "$(sed -n 's/^digest //p' ../out)"
    same "$alike_what: the budget" 1 "$(grep -c "^budget: $alike_budget\$" ../out)"
}

# ---- one CPU ----------------------------------------------------------------

if taskset -c "$cpu" true 2>/dev/null; then
    for stages in 2 4; do
        ends_alike "one CPU, $stages stages" '1 CPU; affinity allows 1, .*' \
            train_on_cpu "$cpu" --digest --stages $stages --report-binding
    done
else
    skip 'one CPU, since taskset does not work'
fi

# ---- a quota ----------------------------------------------------------------

# make_group: in a folder of version 1 or 2, and one inside it; sets $group.
make_group() {
    for group in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
        group=$group/penstock-$$
        mkdir "$group" "$group/inner" && set_quota 100000 &&
            sh -c 'echo $$ >"$0/inner/cgroup.procs"' "$group" && return
        rmdir "$group/inner" "$group"
    done 2>/dev/null
    return 1
}

# set_quota MICROSECONDS: of every tenth of a second.
set_quota() {
    if [ -e "$group/cpu.max" ]; then
        echo "$1 100000" >"$group/cpu.max"
    else
        echo 100000 >"$group/cpu.cfs_period_us" && echo "$1" >"$group/cpu.cfs_quota_us"
    fi
}

# train_in_group ARGUMENT...: from the group inside $group, so that it is an ancestor's
# quota that counts.
# shellcheck disable=SC2317 # called by expect
train_in_group() {
    # shellcheck disable=SC2016,SC2086 # the inner shell's; one word an argument
    sh -c 'echo $$ >"$0/inner/cgroup.procs" && exec "$@"' "$group" \
        pipetrain $cli_tiny --digest --report-binding "$@"
}

if [ -w /sys/fs/cgroup ] && make_group; then
    for quota in 100000 50000; do
        set_quota $quota
        cpus=$(awk "BEGIN { printf \"%.2f\", $quota / 100000 }")
        for stages in 2 4; do
            ends_alike "a quota of $cpus CPUs, $stages stages" \
                "1 CPU; affinity allows [0-9]*, $group/cpu\.[a-z_]* $cpus" \
                train_in_group --stages $stages
        done
    done
    rmdir "$group/inner" "$group"
else
    skip 'a quota, since no cgroup can be made or entered'
fi
finish
