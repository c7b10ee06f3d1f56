#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bad_csv.sh - lists that cannot be read or cannot be run: each is refused in one line
# that names its place.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit

# refused TEXT MESSAGE: TEXT is for printf, MESSAGE what follows "pipesim: ".
refused() {
    # shellcheck disable=SC2059 # the text has escapes
    printf "$1" >list.csv
    expect 1 '' "pipesim: $2" pipesim check list.csv
}

# accepted TEXT SHAPE
accepted() {
    # shellcheck disable=SC2059 # the text has escapes
    printf "$1" >list.csv
    expect 0 "~list.csv: valid: $2
sends that are buffered: no deadlock
*" '' pipesim check list.csv
}

grammar='expected STAGE OP MICROBATCH such as 2F5, with OP one of F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD'

# ---- cells that PyTorch's loader would cut short, or take without a microbatch ----

refused '0F0junk,0B0\n' \
    "list.csv:1: cell 1 (\"0F0junk\"): 'junk' after the action; nothing may follow it"
refused '0F0,0B0 0F1\n' \
    "list.csv:1: cell 2 (\"0B0 0F1\"): ' 0F1' after the action; nothing may follow it"
refused '0F0;0B0\n' \
    "list.csv:1: cell 1 (\"0F0;0B0\"): ';0B0' after the action; nothing may follow it"
refused '0F-1,0B0\n' \
    "list.csv:1: cell 1 (\"0F-1\"): '-1' after the action; nothing may follow it"
refused '0F1.5,0B0\n' \
    "list.csv:1: cell 1 (\"0F1.5\"): '.5' after the action; nothing may follow it"
refused '0F,0B0\n' "list.csv:1: cell 1 (\"0F\"): no microbatch after F; $grammar"
refused '0F0,0SEND_F\n' \
    "list.csv:1: cell 2 (\"0SEND_F\"): no microbatch after SEND_F; $grammar"
refused '0F0,0FOO\n' "list.csv:1: cell 2 (\"0FOO\"): $grammar"
refused '0F0000000000000000000000000000000000000000000x\n' \
    "list.csv:1: cell 1 (\"0F00000000000000000000000000000000000000...\"): 'x' after the action; nothing may follow it"

# ---- cells of no kind --------------------------------------------------------

for cell in 0f0 0X0 F0 F 0 00 0SEND0 0RECV_W0 -1F0 +0F0 None nan; do
    refused "0F0,$cell\n" "list.csv:1: cell 2 (\"$cell\"): $grammar"
done
refused 'rank,cells\n0F0,0B0\n' "list.csv:1: cell 1 (\"rank\"): $grammar"
refused '0F0,0B0\n1F0,,,x\n' "list.csv:2: cell 4 (\"x\"): $grammar"
refused '\357\273\2770F0,0B0\n' "list.csv:1: cell 1 (\"???0F0\"): $grammar"
refused '\001\002\377\n' "list.csv:1: cell 1 (\"???\"): $grammar"
refused '"0F0","0B0"\n' \
    'list.csv:1: cell 1 (""0F0""): quoted; cells are written without quotes'

# ---- stage operations --------------------------------------------------------

refused '0F0,0B0,0REDUCE_GRAD1\n' \
    'list.csv:1: cell 3 ("0REDUCE_GRAD1"): REDUCE_GRAD takes no microbatch'
refused '0UNSHARD0,0F0,0B0\n' \
    'list.csv:1: cell 1 ("0UNSHARD0"): UNSHARD takes no microbatch'
refused '0F0,0B0,0RESHARD0\n' \
    'list.csv:1: cell 3 ("0RESHARD0"): RESHARD takes no microbatch'

# ---- the dialect of old files ------------------------------------------------

old='BW belongs to the dialect from before November 2024, where B was the input part; write I for that B, and B for this BW'
printf '0F0,0BW0\n' >list.csv
expect 1 '' "pipesim: list.csv:1: cell 2 (\"0BW0\"): $old" \
    pipesim check --dialect new list.csv
expect 0 '~list.csv: valid: 1 ranks, 1 stages, 1 microbatches, 2 actions*' \
    '~pipesim: warning: list.csv: read in the dialect from before November 2024*' \
    pipesim check list.csv
refused '0F0,0I0,2BW0\n' 'list.csv: has both I, of the present dialect, and BW, of the one from before November 2024'
printf '0F0,0B0,0W0\n' >list.csv
both='stage 0 has both a full backward (B) and a split one (I, W) of microbatch 0'
expect 1 '' "pipesim: list.csv:1: rank 0, cell 3 (0W0): $both" \
    pipesim check --dialect new list.csv
# As many W as B and no I: an old file too. Any other number of them is not.
expect 0 '~list.csv: valid: 1 ranks, 1 stages, 1 microbatches, 3 actions*' \
    '~pipesim: warning: list.csv: read in the dialect from before November 2024*' \
    pipesim check list.csv
refused '0F0,0F1,0B0,0W0,0B1\n' "list.csv:1: rank 0, cell 4 (0W0): $both"
printf '0F0,0B0\n' >list.csv
expect 1 '' 'pipesim: list.csv:1: rank 0: 0W0 is missing' \
    pipesim check --dialect old list.csv

# ---- pairs -------------------------------------------------------------------

pair='expected a pair such as (5F3;2B1)OVERLAP_F_B'
refused '0F0,0F1,(0F2;0B0\n' "list.csv:1: cell 3 (\"(0F2;0B0\"): $pair"
refused '0F0,(0F1)OVERLAP_F_B\n' "list.csv:1: cell 2 (\"(0F1)OVERLAP_F_B\"): $pair"
refused '0F0,()OVERLAP_F_B\n' "list.csv:1: cell 2 (\"()OVERLAP_F_B\"): $pair"
refused '0F0,(0F1,0B0)OVERLAP_F_B\n' "list.csv:1: cell 2 (\"(0F1\"): $pair"
refused '0F0,(0F1;0B0)\n' \
    "list.csv:1: cell 2 (\"(0F1;0B0)\"): '' behind the pair; expected OVERLAP_F_B"
refused '0F0,(0F1;0B0)OVERLAP\n' \
    "list.csv:1: cell 2 (\"(0F1;0B0)OVERLAP\"): 'OVERLAP' behind the pair; expected OVERLAP_F_B"
refused '0F0,(0F1;0B0)OVERLAP_F_B1\n' \
    "list.csv:1: cell 2 (\"(0F1;0B0)OVERLAP_F_B1\"): 'OVERLAP_F_B1' behind the pair; expected OVERLAP_F_B"
refused '0F0,((0F1;0B0)OVERLAP_F_B;0B1)\n' \
    "list.csv:1: cell 2 (\"((0F1;0B0)OVERLAP_F_B;0B1)\"): 'OVERLAP_F_B;0B1)' behind the pair; expected OVERLAP_F_B"
refused '0F0,(0F1;0B0;0W0)OVERLAP_F_B\n' \
    'list.csv:1: cell 2 ("(0F1;0B0;0W0)OVERLAP_F_B"): a pair has two actions'
refused '0F0,(;0B0)OVERLAP_F_B\n' \
    "list.csv:1: cell 2 (\"(;0B0)OVERLAP_F_B\"): $grammar"
refused '0F0,(0W0;0F1)OVERLAP_F_B\n' \
    'list.csv:1: cell 2 ("(0W0;0F1)OVERLAP_F_B"): a pair is made of F, B and I, not of W'
refused '0F0,(0F1;0SEND_F0)OVERLAP_F_B\n' \
    'list.csv:1: cell 2 ("(0F1;0SEND_F0)OVERLAP_F_B"): a pair is made of F, B and I, not of SEND_F'
refused '0F0,(0F1;0F2)OVERLAP_F_B,0B0,0B1,0B2\n' \
    'list.csv:1: rank 0, cell 2 (0F1): a pair is one forward and one backward (B or I) action'
refused '0F0,0F1,(0B0;0B1)OVERLAP_F_B\n' \
    'list.csv:1: rank 0, cell 3 (0B0): a pair is one forward and one backward (B or I) action'
for cell in OVERLAP_F_B 0OVERLAP_F_B 0OVERLAP_F_B0; do
    refused "0F0,$cell\n" \
        "list.csv:1: cell 2 (\"$cell\"): OVERLAP_F_B stands behind a pair only, as in (5F3;2B1)OVERLAP_F_B"
done

# ---- files with nothing in them, ids that are out of range -------------------

for text in '' '\n\n' ',,\n' ' \t \n'; do
    refused "$text" \
        'list.csv:1: no action in it; expected one line a rank, such as 0F0,0B0'
done
refused '65535F0,0B0\n' 'list.csv:1: cell 1 ("65535F0"): stage 65535; ids go up to 65534'
printf '99999999999999999999F0\n' >list.csv
expect 1 '' \
    '~pipesim: list.csv:1: cell 1 ("99999999999999999999F0"): stage *; ids go up to 65534' \
    pipesim check list.csv
refused '0F1000,0B0\n' \
    "list.csv:1: ids up to stage 0 and microbatch 1000 in only 2 actions; some are missing"
refused '0F0,60000B0\n' \
    "list.csv:1: ids up to stage 60000 and microbatch 0 in only 2 actions; some are missing"

# ---- where stages stand ------------------------------------------------------

refused '0F0,0B0\n0F1,0B1\n' \
    'list.csv:2: rank 1, cell 1 (0F1): stage 0 stands on rank 0 already; a stage has one rank'
refused '0F0\n0B0\n' \
    'list.csv:2: rank 1, cell 1 (0B0): stage 0 stands on rank 0 already; a stage has one rank'
refused '0F0,0B0\n2F0,2B0\n' \
    'list.csv: stage 1 is on no rank; each of the 3 stages needs one'

# ---- order in a row, twice, missing ------------------------------------------

refused '0B0,0F0\n' 'list.csv:1: rank 0, cell 1 (0B0): comes before 0F0'
refused '0I0,0F0,0W0\n' 'list.csv:1: rank 0, cell 1 (0I0): comes before 0F0'
refused '0F0,,0W0,0I0\n' 'list.csv:1: rank 0, cell 3 (0W0): comes before 0I0'
refused '0F0,0F0,0B0\n' 'list.csv:1: rank 0, cell 2 (0F0): stands here a second time'
refused '0F0,0B0,0B0\n' 'list.csv:1: rank 0, cell 3 (0B0): stands here a second time'
refused '0F0,0I0,0W0,0W0\n' 'list.csv:1: rank 0, cell 4 (0W0): stands here a second time'
refused '0F0,0I0,0W0,0B0\n' \
    'list.csv:1: rank 0, cell 4 (0B0): stage 0 has both a full backward (B) and a split one (I, W) of microbatch 0'
refused '0F0,0B0,0F2,0B2\n' 'list.csv:1: rank 0: 0F1 is missing'
refused '0F0,0F1,0B0\n' 'list.csv:1: rank 0: 0B1 is missing'
refused '0F0,0F1\n1F0,1F1,1B0,1B1\n' 'list.csv:1: rank 0: 0B0 is missing'
refused '0F0,0F1,0I0,0W0,0I1\n' 'list.csv:1: rank 0: 0W1 is missing'

# ---- lists that wait for themselves ------------------------------------------

refused '0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n' \
    'list.csv:1: deadlock: rank 0 waits in 0B0 (cell 2) for 1B0 of rank 1, rank 1 waits in 1F1 (cell 2) for 0F1 of rank 0'
refused '0F0,0F1,0I1,0I0,0W0,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n2F0,2F1,2I0,2W0,2I1,2W1\n' \
    'list.csv:2: deadlock: rank 1 waits in 1I0 (cell 2) for 2I0 of rank 2, rank 2 waits in 2F1 (cell 2) for 1F1 of rank 1'
refused '0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n' \
    'list.csv:1: deadlock: rank 0 waits in 0RECV_B0 (cell 2) for 1SEND_B0 of rank 1, rank 1 waits in 1RECV_F0 (cell 1) for 0SEND_F0 of rank 0'
refused '0F0,(0F1;0B1)OVERLAP_F_B,0B0\n' \
    'list.csv:1: deadlock: rank 0 waits in 0F1 (cell 2) for 0F1 of rank 0'

# ---- messages ----------------------------------------------------------------

refused '0F0,0SEND_F0,0B0\n1F0,1B0,1SEND_B0\n' 'list.csv:2: rank 1: 1RECV_F0 is missing'
refused '0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n' \
    'list.csv:2: rank 1: 1SEND_B0 is missing'
refused '0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n' \
    'list.csv:1: rank 0: 0SEND_F0 is missing'
refused '0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n' \
    'list.csv:1: rank 0: 0RECV_B0 is missing'
refused '0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n' \
    'list.csv:1: rank 0, cell 1 (0SEND_F0): is sent before it is made'
refused '0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n' \
    'list.csv:2: rank 1, cell 2 (1RECV_F0): is received after it was used'
refused '0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n' \
    'list.csv:1: rank 0, cell 3 (0SEND_F0): stands here a second time'
refused '0F0,0SEND_B0,0B0\n1F0,1B0\n' \
    'list.csv:1: rank 0, cell 2 (0SEND_B0): there is no stage on the other side'
refused '0F0,0B0\n1F0,1SEND_F0,1B0\n' \
    'list.csv:2: rank 1, cell 2 (1SEND_F0): there is no stage on the other side'
refused '0F0,1SEND_B0,0B0\n1F0,1B0\n' \
    'list.csv:1: rank 0, cell 2 (1SEND_B0): stage 1 is on rank 1'
refused '0F0,0SEND_F0,1RECV_F0,1F0,1B0,1SEND_B0,0RECV_B0,0B0\n' \
    'list.csv: stages 0 and 1 are on one rank, but a message of microbatch 0 is sent or received between them'
refused '0F0,0I0\n' 'list.csv:1: rank 0: 0W0 is missing'

# ---- what stands around the file ---------------------------------------------

printf '0F0,0B0\n' >list.csv
expect 1 '' 'pipesim: list.csv: has 1 microbatches; 2 were asked for' \
    pipesim check list.csv -m 2
expect 1 '' 'pipesim: missing.csv: No such file or directory' pipesim check missing.csv
expect 1 '' 'pipesim: .: Is a directory' pipesim check .
expect 1 '' "pipesim: standard input:2: cell 1 (\"x\"): $grammar" \
    sh -c 'printf "0F0,0B0\nx\n" | pipesim check -'

# Every command refuses in the same words, and writes nothing.
printf '0F0,0B0\n1F0;\n' >list.csv
line="pipesim: list.csv:2: cell 1 (\"1F0;\"): ';' after the action; nothing may follow it"
expect 1 '' "$line" pipesim draw list.csv -o picture.svg
expect 1 '' "$line" pipesim stats list.csv
expect 1 '' "$line" pipesim stats list.csv --json
expect 1 '' "$line" pipesim export list.csv -o copy.csv
printf '0F0,0B0,0B0\n' >list.csv
line='pipesim: list.csv:1: rank 0, cell 3 (0B0): stands here a second time'
expect 1 '' "$line" pipesim draw list.csv -o picture.svg
expect 1 '' "$line" pipesim stats list.csv
expect 1 '' "$line" pipesim export list.csv -o copy.csv
only 'after all of them' list.csv

# ---- and these are good ------------------------------------------------------

accepted '0F0,0B0' '1 ranks, 1 stages, 1 microbatches, 2 actions'
accepted '0F0, 0B0\t,,\n' '1 ranks, 1 stages, 1 microbatches, 2 actions'
accepted '0F0,0B0\r\n1F0,1B0\r\n' '2 ranks, 2 stages, 1 microbatches, 4 actions'
accepted '0F0,0B0\n\n1F0,1B0\n' '3 ranks, 2 stages, 1 microbatches, 4 actions'
accepted '0UNSHARD,0F0,,0B0,0REDUCE_GRAD,0RESHARD\n' \
    '1 ranks, 1 stages, 1 microbatches, 5 actions'
accepted '0F0,0F1,0I0,0I1,0W1,0W0\n1F0,1B0,1F1,1B1\n' \
    '2 ranks, 2 stages, 2 microbatches, 10 actions'
accepted '0F0,(0F1;0B0)OVERLAP_F_B,( 0B1 ; 0F2 )OVERLAP_F_B ,0B2\n' \
    '1 ranks, 1 stages, 3 microbatches, 6 actions'
# Stages of one rank side by side, and in a V.
accepted '0F0,1F0,1B0,0B0\n' '1 ranks, 2 stages, 1 microbatches, 4 actions'
accepted '0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n' \
    '2 ranks, 4 stages, 1 microbatches, 8 actions'


# ---- memory ------------------------------------------------------------------

printf '0F0,0F1,0F2,0B0,0B1,0B2\n' >list.csv
expect 1 '' 'pipesim: list.csv:1: rank 0, cell 3 (0F2): the rank then holds 3 stage-microbatches; the limit is 2' \
    pipesim check --memory-limit 2 list.csv
expect 0 '~list.csv: valid*' '' pipesim check --memory-limit 3 list.csv

# ---- tags --------------------------------------------------------------------

printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >list.csv
expect 1 '' 'pipesim: list.csv: the tags of its messages go up to 7; the bound is 6, which is enough for m = 1' \
    pipesim check --tag-bound 6 list.csv
expect 1 '' 'pipesim: list.csv: the tags of its messages go up to 7, and its 2 stages need at least 3; the bound is 2' \
    pipesim check --tag-bound 2 list.csv
expect 0 '~list.csv: valid*' '' pipesim check --tag-bound 7 list.csv

finish
