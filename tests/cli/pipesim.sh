#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# pipesim.sh - what pipesim prints and writes, to the letter.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit

# ---- help, version, list ----------------------------------------------------

usage='Usage: pipesim COMMAND [OPTION ...]

Simulates, draws, checks and exports pipeline schedules.

Commands:
  list      the schedules that have a name
  draw      draw a schedule as text, SVG, PDF, PNG or a trace
  stats     time, idle time and memory of a schedule
  check     say whether a CSV file can be run, and why not
  export    write a schedule as CSV in PyTorch'"'"'s grammar
  place     where ranks would stand on a machine'"'"'s cores

'"'pipesim COMMAND --help' explains a command."
expect 0 "$usage" '' pipesim --help
expect 0 "$usage" '' pipesim help
expect 2 - - pipesim
expect 0 '~pipesim (Penstock) [0-9]*.[0-9]*.[0-9]*' '' pipesim --version
expect 0 '~pipesim (Penstock) [0-9]*.[0-9]*.[0-9]*' '' pipesim draw --version
for command in list draw stats check export; do
    expect 0 "~Usage: pipesim $command *" '' pipesim $command --help
done

expect 0 - '' pipesim list
names=$(sed -n 's/^\([^ ]*\) - .*/\1/p' ../out)
same 'list: the first two' 'gpipe - all forwards, then all backwards
  aliases  fill-drain, f-then-b, afab, ScheduleGPipe
  source   Huang et al. 2019 (GPipe); PyTorch ScheduleGPipe
  needs    any p and m; one stage a rank
  costs    idle (p-1)(F+I+W); holds m microbatches

1f1b - a short warm-up, then one forward and one backward in turn
  aliases  one-f-one-b, pipedream-flush, dapple, Schedule1F1B, TrainSchedule, forward_backward_pipelining_without_interleaving
  source   Narayanan et al. 2021 (PipeDream-Flush); Megatron-LM; PyTorch Schedule1F1B
  needs    any p and m; one stage a rank
  costs    idle (p-1)(F+I+W); rank r holds min(p-r, m) microbatches' "$(sed -n 1,11p ../out)"
same 'list: five lines a schedule, and one between two' \
    "$(for name in $names; do
        echo "$name - aliases source needs costs"
    done)" "$(awk '/^[^ ]/ { printf "%s -", $1; next }
        /^  [a-z]/ && NF > 1 { printf " %s", $1; next }
        NF == 0 { print "" }
        END { print "" }' ../out)"

# Each of them is made by its name and by each alias, the same list.
pipesim list | awk '/^[^ ]/ { name = $1 }
    $1 == "aliases" { gsub(",", ""); for (i = 2; i <= NF; i++) print name, $i }' >aliases
while read -r name alias; do
    same "$alias is $name" "$(pipesim export "$name" -p 4 -m 8 --extended | cksum)" \
        "$(pipesim export "$alias" -p 4 -m 8 --extended | cksum)"
done <aliases
rm aliases

# ---- export -----------------------------------------------------------------

expect 0 '0F0,0F1,0B0,0STEP0,0B1,0STEP1
1F0,1B0,1STEP0,1F1,1B1,1STEP1' '' pipesim export pipedream -p 2 -m 2 --extended
expect 1 '' "pipesim: bpipe has EVICT, LOAD or STEP, which PyTorch's loader does not know; \
--extended writes them" pipesim export bpipe -p 4 -m 8
for name in bpipe pipedream pipedream-2bw; do
    pipesim export $name -p 4 -m 9 --extended -o extended.csv
    same "$name comes back from its file" \
        "$(pipesim stats $name -p 4 -m 9 | grep -v '^schedule\|^makespan\|^peak')" \
        "$(pipesim stats extended.csv | grep -v '^schedule\|^makespan')"
done
mv extended.csv.meta.json aside.json
expect 1 '' "pipesim: extended.csv:1: cell 12 (\"0STEP3\"): STEP is not of PyTorch's grammar; \
the extended one, which is to be asked for, has it" pipesim check extended.csv
same 'the policy can be given' \
    "$(pipesim stats "$name" -p 4 -m 9 | grep -v '^schedule\|^makespan\|^peak')" \
    "$(pipesim stats extended.csv --extended --weight-policy double |
        grep -v '^schedule\|^makespan')"
rm aside.json extended.csv

# p = 1, m = 1, m < p, and the examples of the generators' headers.
expect 0 '0F0,0B0' '' pipesim export 1f1b -p 1 -m 1
expect 0 '0F0,0B0' '' pipesim export gpipe -p 1 -m 1
expect 0 '0F0,0B0,0F1,0B1' '' pipesim export 1f1b -p 1 -m 2
expect 0 '0F0,0F1,0B0,0B1' '' pipesim export gpipe -p 1 -m 2
expect 0 '0F0,0B0
1F0,1B0
2F0,2B0' '' pipesim export 1f1b -p 3 -m 1
expect 0 '0F0,0F1,0B0,0B1
1F0,1F1,1B0,1B1
2F0,2B0,2F1,2B1' '' pipesim export 1f1b -p 3 -m 2
expect 0 '0F0,0F1,0B0,0F2,0B1,0B2
1F0,1B0,1F1,1B1,1F2,1B2' '' pipesim export 1f1b -p 2 -m 3
expect 0 '0F0,0F1,0F2,0B0,0B1,0B2
1F0,1F1,1F2,1B0,1B1,1B2' '' pipesim export gpipe -p 2 -m 3
expect 0 '0F0,0F1,0B1,0B0
1F0,1F1,1B1,1B0' '' pipesim export gpipe -p 2 -m 2 --backward-order descending

# A send and its receive are put down at one moment, so sends may wait.
expect 0 '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1' '' \
    pipesim export 1f1b -p 2 -m 2 --comms
expect 0 '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1' '' \
    pipesim export 1f1b -p 2 -m 2 --receives in-time
expect 0 '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1' '' \
    pipesim export 1f1b -p 2 -m 2 --receives parity
expect 1 '' '~pipesim: deadlock: rank 1 waits in 1RECV_B0 (cell *) for 2SEND_B0 of rank 2*' \
    pipesim export gpipe -p 3 -m 2 --receives parity

# Names are found by aliases, in any case, with _ for -.
for name in 1F1B one-f-one-b one_f_one_b schedule1f1b DAPPLE; do
    expect 0 '0F0,0F1,0B0,0B1
1F0,1B0,1F1,1B1' '' pipesim export $name -p2 -m2
done

expect 0 '' '' pipesim export 1f1b --ranks=2 --microbatches=3 --output mine.csv
expect 0 '0F0,0F1,0B0,0F2,0B1,0B2
1F0,1B0,1F1,1B1,1F2,1B2' '' pipesim export mine.csv
expect 0 '0F0,0F1,0B0,0F2,0B1,0B2
1F0,1B0,1F1,1B1,1F2,1B2' '' sh -c 'pipesim export - <mine.csv'

# Line ends of Python's writer, blanks and idle cells are read; ours have none.
printf '0F0, 0F1 ,,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n' >windows.csv
expect 0 '0F0,0F1,0B0,0B1
1F0,1B0,1F1,1B1' '' pipesim export windows.csv

# ---- check ------------------------------------------------------------------

expect 0 'mine.csv: valid: 2 ranks, 2 stages, 3 microbatches, 12 actions
sends that are buffered: no deadlock
sends that wait for their receiver, each receive just before its use: deadlock: rank 0 waits in 0SEND_F1 (cell 4) for 1RECV_F1 of rank 1, rank 1 waits in 1SEND_B0 (cell 4) for 0RECV_B0 of rank 0
least capacity of a channel where sends wait for room: 1 message' \
    '' pipesim check mine.csv
expect 0 '' '' pipesim export 1f1b -p 2 -m 2 --comms -o comms.csv
expect 0 'comms.csv: valid: 2 ranks, 2 stages, 2 microbatches, 16 actions
sends that are buffered: no deadlock
sends that wait for their receiver: no deadlock
least capacity of a channel where sends wait for room: 0 messages' '' pipesim check comms.csv -m 2
expect 0 'standard input: valid: 1 ranks, 1 stages, 1 microbatches, 2 actions
sends that are buffered: no deadlock
sends that wait for their receiver: no deadlock
least capacity of a channel where sends wait for room: 0 messages' '' \
    sh -c 'echo 0F0,0B0 | pipesim check -'
expect 0 '{
  "valid": true,
  "ranks": 2,
  "stages": 2,
  "microbatches": 2,
  "replicas": 1,
  "slices": 1,
  "actions": 16,
  "rendezvous": null,
  "least_capacity": 0
}' '' pipesim check comms.csv --json
printf '0F0,0B0\n1F0;\n' >bad.csv
expect 1 '{
  "valid": false,
  "status": "malformed file",
  "file": "bad.csv",
  "line": 2,
  "message": "cell 1 (\"1F0;\"): '"';'"' after the action; nothing may follow it"
}' '' pipesim check bad.csv --json

# ---- what channels must hold -------------------------------------------------

expect 1 '' 'pipesim: channel capacity 0: deadlock: rank 0 waits in 0SEND_F1 (cell 4) for 1RECV_F1 of rank 1, rank 1 waits in 1SEND_B0 (cell 4) for 0RECV_B0 of rank 0; a capacity of 1 would do' \
    pipesim check mine.csv --channel-capacity 0
expect 0 '~mine.csv: valid*' '' pipesim check mine.csv --channel-capacity 1
expect 0 '~comms.csv: valid*' '' pipesim check comms.csv --channel-capacity 0

# Of some kinds; tests of sched/ have all, in more shapes.
for stated in '1f1b -p 2 -m 8:1' 'interleaved -p 2 -v 2 -m 7:3' 'dualpipe -p 2 -m 8:2'; do
    # shellcheck disable=SC2086 # a kind and its options
    pipesim export ${stated%:*} -o least.csv
    least=${stated#*:}
    expect 1 '' "~pipesim: channel capacity $((least - 1)): *; a capacity of $least would do" \
        pipesim check least.csv --channel-capacity $((least - 1))
    expect 0 "~*: $least message*" '' pipesim check least.csv --channel-capacity "$least"
    rm -f least.csv least.csv.meta.json
done

# ---- what a list says beside the grammar ------------------------------------

rendezvous='sends that wait for their receiver, each receive just before its use: *'
expect 0 '' '' pipesim export dualpipe -p 2 -m 4 -o two.csv
same 'dualpipe: the list' '0F0,3F0,0F1,3B0,(3F1;0B0)OVERLAP_F_B,3B1,0I1,0W1
2F0,1F0,2F1,1B0,(1F1;2B0)OVERLAP_F_B,1B1,2I1,2W1' "$(cat two.csv)"
same 'dualpipe: beside it' '{"penstock_schedule": 1, "replicas": 2, "slices": 1}' \
    "$(cat two.csv.meta.json)"
valid="two.csv: valid: 2 ranks, 4 stages, 4 microbatches, 18 actions
sends that are buffered: no deadlock
$rendezvous"
expect 0 "~$valid" '' pipesim check two.csv
expect 0 "~$valid" '' pipesim check two.csv -m 4
expect 1 '' 'pipesim: two.csv: has 4 microbatches; 2 were asked for' \
    pipesim check two.csv -m 2
expect 0 "~$valid" '' pipesim check two.csv --placement bidirectional
expect 1 '' 'pipesim: two.csv: stage 2 stands on rank 1; --placement loop puts it on rank 0' \
    pipesim check two.csv --placement loop
expect 0 '' '' pipesim export two.csv -o copy.csv
true_that 'dualpipe: a copy' cmp two.csv copy.csv
true_that 'dualpipe: beside the copy' cmp two.csv.meta.json copy.csv.meta.json
rm copy.csv copy.csv.meta.json
expect 0 "$(cat two.csv)" '' sh -c 'pipesim export two.csv | cat'
mv two.csv.meta.json elsewhere
expect 1 '' 'pipesim: two.csv:2: deadlock: rank 1 waits in 2F0 (cell 1) for 1F0 of rank 1' \
    pipesim check two.csv
expect 1 '' - pipesim draw two.csv -o two.svg
expect 0 "~$valid" '' pipesim check two.csv --placement bidirectional
expect 0 - '' pipesim stats two.csv --placement bidirectional
holds 'two replicas' 'schedule      two.csv: 2 ranks, 4 stages, 4 microbatches'
holds 'two replicas' 'makespan      12'
for text in '{' '{"penstock_schedule": 2}' '{"penstock_schedule": 1, "replicas": 0}'; do
    echo "$text" >two.csv.meta.json
    expect 1 '' '~pipesim: two.csv.meta.json:*' pipesim check two.csv
done
mv elsewhere two.csv.meta.json
expect 0 '' '' pipesim export 1f1b -p 2 -m 4 -o two.csv
true_that 'a list without replicas: nothing is beside it' test ! -e two.csv.meta.json
expect 0 "~two.csv: valid: 2 ranks, 2 stages, 4 microbatches, 16 actions*" '' \
    pipesim check two.csv

expect 0 '' '' pipesim export seq1f1b -p 2 -m 2 -o two.csv
same 'seq1f1b: beside it' '{"penstock_schedule": 1, "replicas": 1, "slices": 2}' \
    "$(cat two.csv.meta.json)"
expect 0 '~two.csv: valid: 2 ranks, 2 stages, 2 microbatches, 16 actions*' '' \
    pipesim check two.csv
expect 0 '~two.csv: valid: 2 ranks, 2 stages, 4 microbatches, 16 actions*' '' \
    pipesim check two.csv --slices 1
expect 1 '' 'pipesim: two.csv:1: rank 0, cell 4 (0B1): comes before 0B2; the slices of a microbatch go back from the last to the first' \
    pipesim check two.csv --slices 4
expect 1 '' 'pipesim: 3 slices, and 4 microbatch ids in the list; the ids count slices, so they must be a multiple' \
    pipesim check two.csv --slices 3
rm two.csv two.csv.meta.json

expect 0 '' '' pipesim export interleaved -p 2 -m 4 -o loop.csv
for placement in loop 0,1,0,1; do
    expect 0 "~loop.csv: valid: 2 ranks, 4 stages, 4 microbatches, 32 actions
sends that are buffered: no deadlock
$rendezvous" '' pipesim check loop.csv --placement $placement
done
for placement in v wave 0,1,1,0; do
    line="pipesim: loop.csv: stage 2 stands on rank 0; --placement $placement puts it on rank 1"
    expect 1 '' "$line" pipesim check loop.csv --placement $placement
    expect 1 '' "$line" pipesim stats loop.csv --placement $placement
    expect 1 '' "$line" pipesim export loop.csv --placement $placement -o copy.csv
    expect 1 '' "$line" pipesim draw loop.csv --placement $placement -o loop.svg
done
for placement in 0,1,0 0,1,0,1,0 ring ''; do
    expect 1 '' "pipesim: --placement '$placement': loop, v, wave, bidirectional, or 4 ranks with commas between them would work" \
        pipesim check loop.csv --placement "$placement"
done
expect 1 '' 'pipesim: --placement is for files; zb-v has its own' \
    pipesim draw zb-v -p 2 -m 4 --placement v
rm loop.csv

# B and W beside each other are the old B and W, unless the file is said to be new.
printf '0F0,0B0,0W0\n1F0,1BW0\n' >old.csv
warning='pipesim: warning: old.csv: read in the dialect from before November 2024, where B is the input part and BW the full backward'
expect 0 '0F0,0I0,0W0
1F0,1B0' "$warning" pipesim export old.csv
expect 0 '0F0,0I0,0W0
1F0,1B0' '' pipesim export old.csv --dialect old
expect 1 '' '~pipesim: old.csv:2: cell 2 ("1BW0"): BW belongs to the dialect from before November 2024*' \
    pipesim export old.csv --dialect new
expect 2 '' "pipesim: --dialect 'newer': must be one of auto, new, old; see 'pipesim check --help'" \
    pipesim check old.csv --dialect newer
rm old.csv

printf '"0F0",0B0junk\n' >loose.csv
expect 1 '' 'pipesim: loose.csv:1: cell 1 (""0F0""): quoted; cells are written without quotes' \
    pipesim export loose.csv
expect 0 '0F0,0B0' "pipesim: warning: loose.csv:1: cell 2: 'junk' is ignored, as PyTorch's loader does" \
    pipesim export loose.csv --lenient
printf '0F,0B0\n' >loose.csv
expect 1 '' '~pipesim: loose.csv:1: cell 1 ("0F"): no microbatch after F; *' \
    pipesim check loose.csv --lenient
rm loose.csv

# ---- shapes -----------------------------------------------------------------

expect 0 '0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3
1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3' '' \
    pipesim export interleaved -p 2 -m 4
expect 0 - '' pipesim export interleaved -p 2 -m 4 --group 2
group='a group is at least p and leaves none or at least p microbatches over'
expect 0 - '' pipesim stats interleaved -p 4 -m 8 --group 4
holds '--group 4, m = 8' 'makespan      28.5   closed form 28.5 = (m v+p-1)(F+I+W)/v'
for m in 6 7; do
    expect 1 '' "pipesim: interleaved: groups of 4 with p=4 and m=$m would deadlock; $group: $m works" \
        pipesim stats interleaved -p 4 -m $m --group 4
done
expect 1 '' "pipesim: interleaved: groups of 3 with p=4 and m=8 would deadlock; $group: 4 works" \
    pipesim stats interleaved -p 4 -m 8 --group 3
expect 0 '0F0,0F1,0F2,(0F3;0B0)OVERLAP_F_B,0B1,0B2,0B3
1F0,(1F1;1B0)OVERLAP_F_B,(1F2;1B1)OVERLAP_F_B,(1F3;1B2)OVERLAP_F_B,1B3' '' \
    pipesim export eager-1f1b -p 2 -m 4 --pairs
expect 0 '0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3
1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3' '' \
    pipesim export eager-1f1b -p 2 -m 4 --warmup-extra 1
expect 0 '0F0,0F1,0B0,0F2,0B1,0B2
1F0,1I0,1F1,1B1,1F2,1I2,1W2,1W0' '' \
    pipesim export zb-h1 -p 2 -m 3 --weights lifo-merged

# What a schedule has no use for, it refuses; "whose" are those that have one.
expect 1 '' '~pipesim: 1f1b has no groups; interleaved, * have' \
    pipesim stats 1f1b -p 2 -m 2 --group 2
expect 1 '' '~pipesim: 1f1b has no longer warm-up; eager-1f1b, interleaved* have' \
    pipesim stats 1f1b -p 2 -m 2 --warmup-extra 1
expect 1 '' '~pipesim: 1f1b has no slices; seq1f1b*' pipesim stats 1f1b -p 2 -m 2 --slices 2
expect 1 '' '~pipesim: 1f1b has no choice of the order of W; zb-h1*' \
    pipesim stats 1f1b -p 2 -m 2 --weights lifo-merged
expect 1 '' '~pipesim: 1f1b has no choice of the backward order; gpipe, looped-bfs* have' \
    pipesim stats 1f1b -p 2 -m 2 --backward-order ascending

expect 1 '' 'pipesim: dualpipe: 3 ranks; it needs an even number: use 2 or 4, or dualpipev' \
    pipesim draw dualpipe -p 3 -m 8
expect 1 '' 'pipesim: dualpipe: 1 ranks; it needs an even number: use 2 or 4, or dualpipev' \
    pipesim draw dualpipe -p 1 -m 8
even='it needs an even number of at least 2p: use'
expect 1 '' "pipesim: dualpipe: 6 microbatches on 4 ranks; $even 8, or zb-v" \
    pipesim draw dualpipe -p 4 -m 6
expect 1 '' "pipesim: dualpipe: 9 microbatches on 4 ranks; $even 10, or zb-v" \
    pipesim draw dualpipe -p 4 -m 9
expect 1 '' 'pipesim: dualpipe: 1 chunk a rank; it puts two stages on each rank: use 2' \
    pipesim draw dualpipe -p 4 -m 8 -v 1
expect 1 '' 'pipesim: dualpipev: 7 microbatches on 4 ranks; it needs at least 2p: use 8, or zb-v' \
    pipesim draw dualpipev -p 4 -m 7
expect 1 '' 'pipesim: chimera: 7 microbatches; each replica takes half of them: use 8' \
    pipesim draw chimera -p 4 -m 7

# ---- stats ------------------------------------------------------------------

# By hand: (m+p-1)(F+I+W) = 11 * 3; work 8 * 3; the first of 4 ranks holds 4.
expect 0 'schedule      1f1b: 4 ranks, 4 stages, 8 microbatches
costs         F 1, I 1, W 1, latency 0
makespan      33   closed form 33 = (m+p-1)(F+I+W) + 2c(m+p-2-floor(m/p))
longest rank  33 (from its first start to its last end)
ideal         24 (work of the busiest rank)
bubble        0.2727 of the makespan (1 - ideal/makespan)
              0.3750 of the ideal (makespan/ideal - 1)
              0.2727 of the longest rank (1 - ideal/longest rank)
queue         at most 1 message under way between two ranks
peak          closed form: 4 on the first rank, 1 on the last

rank        busy        idle  idle %  peak activations
   0          24           9   27.3                 4
   1          24           9   27.3                 3
   2          24           9   27.3                 2
   3          24           9   27.3                 1' '' pipesim stats 1f1b -p 4 -m 8

# m < p: (2+4-1) * 3.
expect 0 - '' pipesim stats 1f1b -p 4 -m 2
holds 'm < p' 'makespan      15   closed form 15 = (m+p-1)(F+I+W) + 2c(m+p-2-floor(m/p))'
holds 'm < p' 'bubble        0.6000 of the makespan (1 - ideal/makespan)'
holds 'm < p' '   0           6           9   60.0                 2'
holds 'm < p' '   3           6           9   60.0                 1'

expect 0 - '' pipesim stats 1f1b -p 1 -m 1
holds 'one rank' 'bubble        0.0000 of the makespan (1 - ideal/makespan)'
holds 'one rank' 'queue         at most 0 messages under way between two ranks'
holds 'one rank' '   0           3           0    0.0                 1'

# 4 * 3 + 2c(m+p-2-floor(m/p)) = 12 + 2 * 0.5 * 2.
expect 0 - '' pipesim stats 1f1b -p 2 -m 3 --latency 0.5
holds latency 'makespan      14   closed form 14 = (m+p-1)(F+I+W) + 2c(m+p-2-floor(m/p))'

# A slice takes a k-th of a microbatch: (4 * 8 + 4 - 1) slices of 3/4.
expect 0 - '' pipesim stats seq1f1b -p 4 -m 8 --slices 4
holds slices 'schedule      seq1f1b: 4 ranks, 4 stages, 8 microbatches'
holds slices 'makespan      26.25   closed form 26.25 = (m k+p-1)(F+I+W)/k'
holds slices 'ideal         24 (work of the busiest rank)'
holds slices '   0          24        2.25    8.6                 7'
expect 0 - '' pipesim stats seq1f1b -p 4 -m 8
holds '2 slices' 'makespan      28.5   closed form 28.5 = (m k+p-1)(F+I+W)/k'

# Bytes take time too: 4 bytes at 8 a unit are half a unit. No closed form is shown.
expect 0 - '' pipesim stats 1f1b -p 2 -m 3 --message-bytes 4 --bandwidth 8
holds bandwidth 'costs         F 1, I 1, W 1, latency 0, 4 bytes at 8 a unit'
holds bandwidth 'makespan      14'

# Each message keeps the link for 2; the second of them, ready at 2, goes at 3. By hand
# in tests/sched/test_network.c.
set -- gpipe -p 2 -m 2 --latency 1 --bandwidth 50 --message-bytes 100
expect 0 - '' pipesim stats "$@" --hosts 2
holds hosts 'costs         F 1, I 1, W 1, latency 1, 100 bytes at 50 a unit, hosts 2'
holds hosts 'makespan      16'
holds hosts 'links         from host 0 to host 1: kept for 4 (25.0 % of the makespan); a message waited for 1 at most'
holds hosts '              from host 1 to host 0: kept for 4 (25.0 % of the makespan); a message waited for 0 at most'
expect 0 - '' pipesim stats "$@" --hosts 1,0
holds 'hosts by rank' 'makespan      16'
expect 0 - '' pipesim stats "$@" --hosts 0,0
holds 'one host' 'makespan      9'
expect 0 - '' pipesim stats "$@" --hosts 1 --data-parallel 2
holds 'one host' 'makespan      9'
expect 0 - '' pipesim stats zb-v-auto -p 2 -m 4 --hosts 0,0,0,0 --data-parallel 2
for hosts in 0 3 0,2 0,1,0 0,x 0,0.5 '0,' ''; do
    expect 1 '' "pipesim: --hosts '$hosts': give how many (1 to 2), or for each of 2 ranks the number of its host, from 0" \
        pipesim stats "$@" --hosts "$hosts"
done

# Rank 1 is the slow one: it starts at 1, works 2 * (3+2+1), and rank 0 adds its last B.
expect 0 - '' pipesim stats gpipe -p 2 -m 2 --forward 1,3 --backward-input 2
holds 'one cost a rank' 'costs         F 1,3, I 2, W 1, latency 0'
holds 'one cost a rank' 'makespan      16'
holds 'one cost a rank' 'ideal         12 (work of the busiest rank)'
holds 'one cost a rank' '   0           8           8   50.0                 2'
holds 'one cost a rank' '   1          12           4   25.0                 2'

expect 0 - '' pipesim stats 1f1b -p 2 -m 3 --iterations 2
holds iterations 'makespan      24'

# A list of one's own with a split backward: W fills the wait of rank 0.
printf '0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n' >split.csv
expect 0 - '' pipesim stats split.csv
holds "a list of one's own" 'schedule      split.csv: 2 ranks, 2 stages, 2 microbatches'
holds "a list of one's own" 'makespan      8'

# A pair takes the time that --pair says: F0 1, the pair, B1 2.
printf '0F0,(0F1;0B0)OVERLAP_F_B,0B1\n' >pair.csv
expect 0 - '' pipesim stats pair.csv --pair 2.5
holds pair 'makespan      5.5'
expect 0 - '' pipesim stats pair.csv
holds pair 'makespan      6'

expect 0 '{
  "schedule": "gpipe",
  "ranks": 2,
  "stages": 2,
  "microbatches": 3,
  "iterations": 1,
  "makespan": 12.0,
  "longest_rank": 12.0,
  "ideal": 9.0,
  "bubble": {
    "of_makespan": 0.25,
    "of_ideal": 0.333333333333,
    "longest_rank": 0.25
  },
  "busy": [
    9.0,
    9.0
  ],
  "peak_activations": [
    3,
    3
  ],
  "max_queue_depth": 1,
  "closed_form": {
    "makespan": 12.0,
    "peak_first_rank": 3,
    "peak_last_rank": 3,
    "formula": "(m+p-1)(F+I+W) + 2c(p-1)"
  }
}' '' pipesim stats gpipe -p 2 -m 3 --json

# ---- draw -------------------------------------------------------------------

# Four columns a unit: F0 at 0, F1 at 1, B0 at 4..6, F2, B1, and B2 at 10..12.
small='1f1b: 2 ranks, 2 stages, 3 microbatches
rank 0 F0--F1--........B0======F2--B1======....B2======
rank 1 ....F0--B0======F1--B1======F2--B2======........
F 1, I 1, W 1, latency 0. Makespan 12, ideal 9, bubble 25.0
% of the makespan. F forward, B backward, I backward-input,
W backward-weight, with the microbatch.'
expect 0 "$small" '' pipesim draw 1f1b -p 2 -m 3 --columns 60 --color never
expect 0 "$small" '' pipesim draw 1f1b -p 2 -m 3 --columns 60
expect 0 "$small" '' env COLUMNS=60 pipesim draw -p 2 -m 3 -- 1f1b
expect 0 '1f1b: 1 ranks, 1 stages, 2 microbatches
rank 0 F0--B0======F1--B1======
F 1, I 1, W 1, latency 0. Makespan 6, ideal 6, bubble 0.0 %
of the makespan. F forward, B backward, I backward-input, W
backward-weight, with the microbatch.' '' pipesim draw 1f1b -p 1 -m 2 --columns 60

# A pair that overlaps: a half each.
expect 0 'pair.csv: 1 ranks, 1 stages, 2 microbatches
rank 0 F0--F1----B0====B1======
F 1, I 1, W 1, latency 0. Makespan 6, ideal 6, bubble 0.0 %
of the makespan. F forward, B backward, I backward-input, W
backward-weight, with the microbatch. Two that overlap share
one place.' '' pipesim draw pair.csv --columns 60

# One column a unit: no room for F's microbatch, and the title is cut.
expect 0 '1f1b: 3 ranks, 3 stag...
rank 0 FF.....B0.B1
rank 1 .FF..B0.B1..
rank 2 ..FB0FB1....
F 1, I 1, W 1, latency
0. Makespan 12, ideal 6,
bubble 50.0 % of the
makespan. F forward, B
backward, I
backward-input, W
backward-weight, with
the microbatch.' '' pipesim draw 1f1b -p 3 -m 2 --columns 24

# In no width is a line longer than asked for, whatever the schedule.
for columns in 20 33 80; do
    expect 0 - '' pipesim draw 1f1b -p 8 -m 40 --columns $columns
    same "draw --columns $columns: lines that are longer" '' \
        "$(awk -v most=$columns 'length($0) > most' ../out)"
done

blue=$(printf '\033[30;48;2;76;120;168m')
orange=$(printf '\033[30;48;2;232;116;59m')
off=$(printf '\033[0m')
expect 0 "gpipe: 2 ranks, 2 stages, 1 microbatches
rank 0 ${blue}F0  $off............${orange}B0      $off
rank 1 ....${blue}F0  $off${orange}B0      $off........
F 1, I 1, W 1, latency 0. Makespan 6, ideal 3, bubble 50.0 %
of the makespan. F forward, B backward, I backward-input, W
backward-weight, with the microbatch." '' \
    pipesim draw gpipe -p 2 -m 1 --columns 60 --color always
colored=$(cat ../out)
expect 0 "$colored" '' env PENSTOCK_COLOR=always \
    pipesim draw gpipe -p 2 -m 1 --columns 60
expect 0 "$small" '' env PENSTOCK_COLOR=always \
    pipesim draw 1f1b -p 2 -m 3 --columns 60 --color never

# Files. What was there is replaced; nothing else is left.
echo old >picture.svg
expect 0 '' '' pipesim draw 1f1b -p 4 -m 8 -o picture.svg
same 'SVG: first line' '<?xml version="1.0" encoding="UTF-8"?>' "$(head -n 1 picture.svg)"
same 'SVG: last line' '</svg>' "$(tail -n 1 picture.svg)"
if command -v xmllint >/dev/null 2>&1; then
    true_that 'SVG is XML' xmllint --nonet --noout picture.svg
else
    skip 'SVG by xmllint, which is not here'
fi

bytes() { # FILE FIRST COUNT
    dd if="$1" bs=1 skip="$2" count="$3" 2>/dev/null | od -An -tx1 | tr -d ' \n'
}
expect 0 '' '' pipesim draw 1f1b -p 4 -m 8 -o picture.png
same 'PNG: its signature and first chunk' 89504e470d0a1a0a0000000d49484452 \
    "$(bytes picture.png 0 16)"
same 'PNG: its last chunk' 0000000049454e44ae426082 \
    "$(bytes picture.png $(($(wc -c <picture.png) - 12)) 12)"

expect 0 '' '' pipesim draw 1f1b -p 4 -m 8 -o picture.pdf
same 'PDF: first bytes' 255044462d "$(bytes picture.pdf 0 5)"
same 'PDF: last line' '%%EOF' "$(tail -n 1 picture.pdf)"

expect 0 '' '' pipesim draw 1f1b -p 2 -m 3 --columns 60 -o picture.txt
same 'text file' "$small" "$(cat picture.txt)"

# 12 actions, each an event with its times.
expect 0 '' '' pipesim draw 1f1b -p 2 -m 3 -o picture.json
same 'trace: its actions' 12 "$(grep -c '"ph": "X"' picture.json)"
if command -v python3 >/dev/null 2>&1; then
    true_that 'trace is JSON' python3 -m json.tool picture.json
else
    skip 'the trace by python3, which is not here'
fi
only draw 'bad.csv comms.csv mine.csv pair.csv picture.json picture.pdf picture.png picture.svg picture.txt split.csv windows.csv'

# ---- where nothing can be written -------------------------------------------

if [ -w /dev/full ]; then
    full='pipesim: standard output: No space left on device'
    expect 1 '' "$full" sh -c 'pipesim list >/dev/full'
    expect 1 '' "$full" sh -c 'pipesim --help >/dev/full'
    expect 1 '' "$full" sh -c 'pipesim draw --help >/dev/full'
    expect 1 '' "$full" sh -c 'pipesim draw 1f1b -p 2 -m 2 >/dev/full'
    expect 1 '' "$full" sh -c 'pipesim stats 1f1b -p 2 -m 2 >/dev/full'
    expect 1 '' "$full" sh -c 'pipesim stats 1f1b -p 2 -m 2 --json >/dev/full'
    expect 1 '' "$full" sh -c 'pipesim check mine.csv >/dev/full'
    expect 1 '' 'pipesim: /dev/stdout: No space left on device' \
        sh -c 'pipesim export 1f1b -p 2 -m 2 >/dev/full'
    expect 1 '' 'pipesim: /dev/full: No space left on device' \
        pipesim export 1f1b -p 2 -m 2 -o /dev/full
else
    skip 'a full device, since there is no /dev/full'
fi

# A file that cannot be finished (here: too large) leaves the old one as it was.
mkdir limited
for name in picture.svg picture.png picture.pdf picture.json picture.txt list.csv; do
    echo old >limited/$name
    case $name in
    *.csv) command="export 1f1b -p 200 -m 2000 -o limited/$name" ;;
    *) command="draw 1f1b -p 40 -m 400 --columns 99999 -o limited/$name" ;;
    esac
    expect 1 '' "~pipesim: *limited/$name: File too large" \
        env GCOV_PREFIX=/dev/null GCOV_ERROR_FILE=/dev/null \
        sh -c "trap '' XFSZ; ulimit -f 8; pipesim $command"
    same "limited/$name" old "$(cat limited/$name)"
done
same 'left behind by files that could not be finished' \
    'list.csv picture.json picture.pdf picture.png picture.svg picture.txt' \
    "$(find limited -type f | sed 's|.*/||' | sort | tr '\n' ' ' | sed 's/ $//')"
rm -r limited

expect 1 '' 'pipesim: nowhere/x.svg: No such file or directory' \
    pipesim draw 1f1b -p 2 -m 2 -o nowhere/x.svg
expect 1 '' 'pipesim: nowhere/x.csv: No such file or directory' \
    pipesim export 1f1b -p 2 -m 2 -o nowhere/x.csv
expect 1 '' 'pipesim: .: is a folder; name a file' pipesim export 1f1b -p 2 -m 2 -o .

# ---- refusals ---------------------------------------------------------------

expect 2 '' "pipesim: unknown command 'lst'; did you mean 'list'?" pipesim lst
expect 2 '' "pipesim: unknown command 'qwertz'; see 'pipesim --help'" pipesim qwertz
expect 1 '' "pipesim: '2f2b' is not a schedule; there are $(echo "$names" |
    sed 's/$/,/' | tr '\n' ' ')and files ending in .csv" pipesim draw 2f2b -p 2 -m 2
expect 2 '' "pipesim: SCHEDULE is missing; see 'pipesim draw --help'" pipesim draw
expect 2 '' "pipesim: FILE.csv is missing; see 'pipesim check --help'" pipesim check
expect 2 '' "pipesim: 'gpipe': one operand too many; see 'pipesim stats --help'" \
    pipesim stats 1f1b gpipe
expect 2 '' "pipesim: 'x': one operand too many; see 'pipesim list --help'" pipesim list x
expect 2 '' "pipesim: 1f1b needs -p P and -m M; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 2
expect 2 '' "pipesim: unknown option '--zzzzzz'; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 2 -m 2 --zzzzzz
expect 2 '' "~pipesim: unknown option '--colour', perhaps '--color' is meant*" \
    pipesim draw 1f1b -p 2 -m 2 --colour never
expect 2 '' "pipesim: unknown option '-x'; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 2 -m 2 -x
expect 2 '' "pipesim: unknown option '--json'; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 2 -m 2 --json
expect 2 '' "pipesim: --json takes no value; see 'pipesim stats --help'" \
    pipesim stats 1f1b --json=1
expect 2 '' "pipesim: -m needs a value (M); see 'pipesim stats --help'" \
    pipesim stats 1f1b -p 2 -m
expect 2 '' "pipesim: --ranks needs a value (P); see 'pipesim stats --help'" \
    pipesim stats 1f1b --ranks
expect 2 '' "pipesim: --ranks 'x': not a whole number; see 'pipesim stats --help'" \
    pipesim stats 1f1b -p x -m 2
expect 2 '' "pipesim: --ranks 0: must be from 1 to 65535; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 0 -m 2
expect 2 '' "pipesim: --ranks '99999999999': not a whole number that fits; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 99999999999 -m 2
expect 2 '' "pipesim: --bandwidth -1: must be at least 0; see 'pipesim stats --help'" \
    pipesim stats 1f1b -p 2 -m 2 --bandwidth -1
expect 2 '' "pipesim: --latency 'nan': not a number; see 'pipesim stats --help'" \
    pipesim stats 1f1b -p 2 -m 2 --latency nan
expect 2 '' "pipesim: --color 'blue': must be one of auto, always, never; see 'pipesim draw --help'" \
    pipesim draw 1f1b -p 2 -m 2 --color blue
expect 1 '' 'pipesim: 1f1b: 2 chunks a rank; it puts one stage on each rank: use 1' \
    pipesim stats 1f1b -p 2 -m 2 -v 2
expect 1 '' "pipesim: --forward '1,2,3': 3 numbers; give 1, or one a rank (2), or one a stage (2)" \
    pipesim stats 1f1b -p 2 -m 2 --forward 1,2,3
for list in '1,' ',1' 1,,2 x -1 inf; do
    expect 1 '' "pipesim: --forward '$list': must be numbers of at least 0 with commas between them" \
        pipesim stats 1f1b -p 2 -m 2 --forward "$list"
done
expect 1 '' 'pipesim: x.gif: its ending says no format that can be drawn; use .svg, .pdf, .png, .txt, or .json for a trace' \
    pipesim draw 1f1b -p 2 -m 2 -o x.gif
expect 1 '' 'pipesim: mine.csv: has 2 ranks; 3 were asked for' \
    pipesim stats mine.csv -p 3
expect 1 '' 'pipesim: mine.csv: has 3 microbatches; 4 were asked for' \
    pipesim stats mine.csv -m 4
expect 1 '' 'pipesim: mine.csv: has 2 stages on 2 ranks; 2 chunks a rank were asked for' \
    pipesim stats mine.csv -v 2
only 'the end' 'bad.csv comms.csv mine.csv pair.csv picture.json picture.pdf picture.png picture.svg picture.txt split.csv windows.csv'

finish
