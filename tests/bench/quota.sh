#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# quota.sh - what a CPU quota leaves of a training run's speed.
#
# Tokens a second of one stage on one CPU, and of 2 and 4 stages in cgroups that may use
# one CPU and half a one: as they are, and over quota times that speed. Medians of runs
# in turn, since other programs may use the machine. Needs root.
#
# Usage: quota.sh [RUNS]
set -eu

pipetrain=$(cd "${top_builddir:-.}" && pwd)/pipetrain
runs=${1:-3}
scratch=$(mktemp -d)
group=/sys/fs/cgroup/cpu/penstock-$$
[ -d /sys/fs/cgroup/cpu ] || group=/sys/fs/cgroup/penstock-$$
if ! mkdir "$group" 2>/dev/null; then
    echo 'a cgroup cannot be made here, skipped'
    exit 0
fi
# shellcheck disable=SC2154 # of the trap
trap 's=$?; rmdir "$group"; rm -rf "$scratch"; exit $s' EXIT
trap 'exit 1' HUP INT TERM
cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
awk 'BEGIN {
    for (i = 0; i < 5000; i++)
        printf "In line %d it is said that %d is more than %d.\n", i, i * i, i
}' >"$scratch/text"

# set_quota MICROSECONDS of every tenth of a second
set_quota() {
    if [ -e "$group/cpu.max" ]; then
        echo "$1 100000" >"$group/cpu.max"
    else
        echo 100000 >"$group/cpu.cfs_period_us"
        echo "$1" >"$group/cpu.cfs_quota_us"
    fi
}

# measure NAME STAGES COMMAND...: tokens a second of all steps but the first, into a file
measure() {
    name=$1 stages=$2
    shift 2
    "$@" "$pipetrain" --data "$scratch/text" --stages "$stages" --steps 20 --quiet \
        --val-fraction 0 --log "$scratch/log" >/dev/null
    awk -F'[:,]' '!/"step": 1,/ {
        for (i = 1; i < NF; i++) {
            tokens += $i ~ /"tokens"/ ? $(i + 1) : 0
            seconds += $i ~ /"seconds"/ ? $(i + 1) : 0
        }
    } END { print tokens / seconds }' "$scratch/log" >>"$scratch/$name"
    rm "$scratch/log"
}

in_group() {
    # shellcheck disable=SC2016 # the inner shell's
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
}

median() {
    sort -n "$scratch/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

for run in $(seq "$runs"); do
    measure one 1 taskset -c "$cpu"
    for quota in 100000 50000; do
        set_quota $quota
        measure "$quota-2" 2 in_group
        measure "$quota-4" 4 in_group
    done
done

one=$(median one)
echo "medians of $run runs"
printf '%-24s %8.0f tokens/s\n' '1 stage on 1 CPU' "$one"
for quota in 100000 50000; do
    for stages in 2 4; do
        awk -v one="$one" -v found="$(median "$quota-$stages")" -v quota=$quota \
            -v stages=$stages 'BEGIN {
            cpus = quota / 100000
            printf "%d stages, quota %.1f     %8.0f tokens/s, %.3f of quota x 1 CPU\n",
                stages, cpus, found, found / (cpus * one)
        }'
    done
done
