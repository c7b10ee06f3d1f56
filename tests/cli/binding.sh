#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# binding.sh - where workers go, and the same weights where the system says no: calls
# that strace refuses, one CPU.
# shellcheck source=tests/cli/lib.sh disable=SC1091
machines=$(cd "${srcdir:-.}" && pwd)/tests/data/machines
. "${srcdir:-.}/tests/cli/lib.sh" || exit
unset HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_THISSYSTEM || :
make_text 200 >text
cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)

train --digest --stages 4 --bind none >../plain 2>&1
plain=$(sed -n 's/^digest //p' ../plain)
same 'the digest to compare with' 71 "${#plain}"

# ends_alike WHAT WARNING COMMAND...: the same weights, and this on standard error, an
# exact text or "~" and a pattern.
ends_alike() {
    alike_what=$1
    shift
    expect 0 - "$@"
    same "$alike_what: the weights" "$plain" "$(sed -n 's/^digest //p' ../out)"
}

# with NAME=VALUE...: train with these in the environment.
# shellcheck disable=SC2317 # called by expect
with() {
    # shellcheck disable=SC2086,SC2154 # one word an argument, from lib.sh
    env "$@" pipetrain $cli_tiny --digest --stages 4 --report-binding
}

# place ARGUMENT...: CPUs and nodes, in the short form of the tests in tests/stages.
place() {
    pipesim place "$@" 2>&1 | sed 's/^rank [0-9]*: would be bound to CPU //
        s/, core [0-9]*//; s/, NUMA node /@/' | tr '\n' ' ' | sed 's/ $//'
}

# ---- told where --------------------------------------------------------------

for bind in auto core "$cpu:$cpu:$cpu:$cpu" "$cpu,$cpu,$cpu,$cpu"; do
    ends_alike "--bind $bind" '' train --digest --stages 4 --bind "$bind"
done
ends_alike '--huge-pages' - train --digest --stages 4 --huge-pages
same '--huge-pages: one warning at most' 0 "$(sed 1d ../err | wc -l | tr -d ' ')"

train --stages 1 --report-binding --bind "$cpu" --steps 0 >../out 2>&1
same 'a list: its report' 1 "$(grep -c \
    "^rank 0: thread [0-9]*, bound to CPU $cpu, .*; [0-9.]* MiB on node [0-9]*\$" ../out)"
same 'the budget' 1 "$(grep -c '^budget: [0-9]* CPUs\{0,1\}; affinity allows [0-9]*, ' ../out)"

for team in 1 2 3; do
    ends_alike "--team $team" - train --digest --stages 1 --team $team --report-binding
    ends_alike "4 stages, --team $team" - train --digest --stages 4 --team $team
done
same 'a team: its report' 1 "$(train --stages 1 --team 2 --report-binding --steps 0 2>/dev/null |
    grep -c '^rank 0: thread [0-9]*, bound to CPU .*; its team of 2 on CPU [0-9,-]*; ')"

form="write one CPU a rank, as in 0,2,4-5, or all CPUs of each rank with ':' between ranks, as in 0-1:2-3"
expect 1 '' "pipetrain: CPU list '$cpu' has 1 CPU for 4 ranks; $form" \
    train --stages 4 --bind "$cpu"
expect 1 '' "~pipetrain: CPU list '$cpu,99999': CPU 99999 is not in this machine; these would work: *" \
    train --bind "$cpu,99999"
expect 1 '' "pipetrain: CPU list '0-': its end is not understood; $form" train --bind 0-
expect 2 '' "pipesim: --bind 'cores': must be one of auto, none, core, or CPUs, as in 0,2,4-5 or 0-1:2-3; see 'pipesim place --help'" \
    pipesim place -p 2 --bind cores
expect 2 '' "pipesim: -p P is missing; see 'pipesim place --help'" pipesim place

# ---- other machines ----------------------------------------------------------

same 'two nodes' '0@0 1@0 2@1' "$(place -p 3 --topology 'numa:2 core:2 pu:1')"
same 'hyperthreads' '0@0 1@0 2-3@0' "$(place -p 3 --topology 'core:2 pu:2')"
same '--bind core' '0-1@0 0-1@0 2-3@0' \
    "$(place -p 3 --topology 'core:2 pu:2' --bind core)"
same 'a list' '3@1 0-1@0' "$(place -p 2 --topology 'numa:2 core:2 pu:1' --bind 3:0-1)"
same 'hybrid cores' '0@0 4-5@0 6-7@0 8-9@0 10-11@0' \
    "$(place -p 5 --topology-xml "$machines/hybrid.xml")"
same 'offline CPUs' '1@0 2-3@0 7@0' "$(place -p 3 --topology-xml "$machines/offline.xml")"
same 'teams' '0-3@0; a team of 4 4-7@0; a team of 4' \
    "$(place -p 2 --topology 'l3:2 core:4 pu:1')"
same '--team' '0-2@0; a team of 3 4-6@0; a team of 3' \
    "$(place -p 2 --topology 'l3:2 core:4 pu:1' --team 3)"
expect 1 '' "pipesim: topology file missing.xml cannot be read as hwloc XML; 'lstopo FILE.xml' writes such a file" \
    pipesim place -p 3 --topology-xml missing.xml
expect 0 'rank 0: would not be bound' '' pipesim place -p 1 --bind none

ends_alike '--topology' '' train --digest --stages 4 --report-binding \
    --topology 'numa:4 core:1 pu:2'
same '--topology: its report' 4 "$(grep -c \
    '^rank \([0-3]\): thread [0-9]*, not bound, .*; would be bound to CPU [0-9-]*, core \1, NUMA node \1; [0-9.]* MiB$' \
    ../out)"
HWLOC_SYNTHETIC='numa:4 core:1 pu:2'
export HWLOC_SYNTHETIC
ends_alike 'HWLOC_SYNTHETIC' '' train --digest --stages 4 --report-binding
same 'HWLOC_SYNTHETIC: its report' 4 "$(grep -c 'would be bound' ../out)"
unset HWLOC_SYNTHETIC

# What the environment says of the machine: CPU 0 offline and some disallowed, cores of
# two kinds, nodes of uneven size, no node at all (hwloc 1's form); and the first again
# with the word that it is this one, and one whose CPUs are not this one's.
warned() {
    same "$1: one warning at most" 0 "$(sed 1d ../err | wc -l | tr -d ' ')"
}
for machine in offline hybrid uneven nonuma; do
    ends_alike "HWLOC_XMLFILE, $machine" '' with HWLOC_XMLFILE="$machines/$machine.xml"
    same "HWLOC_XMLFILE, $machine: its report" 4 "$(grep -c 'would be bound' ../out)"
done
ends_alike 'HWLOC_THISSYSTEM' - with HWLOC_XMLFILE="$machines/offline.xml" HWLOC_THISSYSTEM=1
warned 'HWLOC_THISSYSTEM'
ends_alike 'CPUs that are not there' '~pipetrain: warning: 4 of 4 workers could not be bound *' \
    with HWLOC_SYNTHETIC='pu:2(indexes=99998,99999)' HWLOC_THISSYSTEM=1
warned 'CPUs that are not there'
ends_alike 'OMP_PROC_BIND' '' with OMP_PROC_BIND=true OMP_PLACES=cores OMP_NUM_THREADS=4
same 'no node: its places' '0@0 1@0 2@0 3@0' \
    "$(place -p 4 --topology-xml "$machines/nonuma.xml")"

# ---- where the system says no ------------------------------------------------

if taskset -c "$cpu" true 2>/dev/null; then
    ends_alike 'one CPU' '' train_on_cpu "$cpu" --digest --stages 4 --report-binding
    same 'one CPU: its report' 4 "$(grep -c "bound to CPU $cpu, " ../out)"
    same 'one CPU: the budget' 1 "$(grep -c '^budget: 1 CPU; affinity allows 1, ' ../out)"
    last=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]\([0-9]*\)$/\1/p' /proc/self/status)
    ends_alike 'the last CPU' '' train_on_cpu "$last" --digest --stages 4 --report-binding
    same 'the last CPU: its report' 4 "$(grep -c "bound to CPU $last, " ../out)"
else
    skip 'one CPU, since taskset does not work'
fi

# refusing CALLS ERROR ARGUMENT...: train where the kernel refuses these.
# shellcheck disable=SC2317 # called by expect
refusing() {
    cli_calls=$1 cli_error=$2
    shift 2
    # shellcheck disable=SC2086,SC2154 # one word an argument, from lib.sh
    ASAN_OPTIONS=detect_leaks=0 timeout 300 strace -f -o /dev/null \
        -e trace="$cli_calls" -e inject="$cli_calls:error=$cli_error" \
        pipetrain $cli_tiny --digest --stages 4 --team 1 "$@"
}

if strace -f -o /dev/null -e trace=mbind -e inject=mbind:error=EPERM true 2>/dev/null; then
    ends_alike 'sched_setaffinity refused' \
        '~pipetrain: warning: 4 of 4 workers could not be bound (rank 0 to CPU *: Operation not permitted) and run where the system puts them' \
        refusing sched_setaffinity EPERM
    same 'sched_setaffinity refused: one warning' 1 "$(wc -l <../err | tr -d ' ')"
    ends_alike 'mbind refused' \
        '~pipetrain: warning: memory of 4 of 4 ranks could not be bound (rank 0 to NUMA node *: Operation not permitted) and is where workers touch it first' \
        refusing mbind EPERM
    same 'mbind refused: one warning' 1 "$(wc -l <../err | tr -d ' ')"
    ends_alike 'all refused' '~pipetrain: warning: 4 of 4 workers *' \
        refusing sched_setaffinity,mbind,madvise,move_pages,get_mempolicy ENOSYS \
        --huge-pages
    same 'all refused: one warning' 1 "$(wc -l <../err | tr -d ' ')"
else
    skip 'refused calls, since strace does not work'
fi

finish
