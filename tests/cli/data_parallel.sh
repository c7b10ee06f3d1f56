#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# data_parallel.sh - copies of a pipeline that share a batch, and copies of a list.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
make_text 200 >text

# digest ARGUMENT...: of the weights that such a run ends in.
digest() {
    found=$(train --steps 4 --digest "$@" 2>../err | sed -n 's/^digest sha256://p')
    [ ${#found} -eq 64 ] || fail "train $*: no digest" 'digest sha256:...' "$(cat ../err)"
    echo "$found"
}

# ---- pipetrain --------------------------------------------------------------

plain=$(digest --microbatches 2)
same 'one copy' "$plain" "$(digest --microbatches 2 --data-parallel 1)"
two=$(digest --microbatches 2 --data-parallel 2)
differ 'two copies' "$plain" "$two"
same 'two copies again, gpipe' "$two" \
    "$(digest --microbatches 2 --data-parallel 2 --stages 4 --schedule gpipe)"
same 'two copies, zb-v' "$two" "$(digest --microbatches 2 --data-parallel 2 --stages 4 \
    --chunks 2 --schedule zb-v)"
same 'equal shares' "$two" "$(digest --microbatches 2 --data-parallel 2 --shares 5,5)"
uneven=$(digest --microbatches 2 --data-parallel 2 --shares 3,1)
differ 'shares' "$two" "$uneven"
same 'shares, one stage' "$uneven" \
    "$(digest --microbatches 2 --data-parallel 2 --shares 3,1 --stages 1)"
same 'the loss' "$(train --steps 4 --microbatches 2 | tail -n 1)" \
    "$(train --steps 4 --microbatches 2 --data-parallel 3 --schedule dualpipev --stages 2 \
        --chunks 2 2>/dev/null | tail -n 1)"

# A small batch is cut into single sequences.
expect 0 '~*
pipeline  1f1b: 3 copies of 2 stages, 6 stages on 6 ranks, 8 sequences in 6 microbatches, *' - \
    pipetrain --data text --width 16 --context 8 --batch 8 --steps 1 --data-parallel 3

# A file brings its copies, or gets them.
expect 0 '' '' pipesim export 1f1b -p 2 -m 2 -o one.csv
expect 0 '' '' pipesim export 1f1b -p 2 -m 2 --data-parallel 2 -o two.csv
same 'copies beside the file' \
    '{"penstock_schedule": 1, "replicas": 2, "slices": 1, "data_parallel": 2}' \
    "$(cat two.csv.meta.json)"
same 'copies of a file' "$two" "$(digest -m 2 --schedule one.csv --data-parallel 2)"
same 'copies in a file' "$two" "$(digest -m 2 --schedule two.csv)"
same 'copies in a file, and given' "$two" \
    "$(digest --schedule two.csv --data-parallel 2 --microbatches 2 --stages 2)"
expect 1 '' 'pipetrain: two.csv: 3 copies side by side of a list that has 2 already' \
    train -m 2 --schedule two.csv --data-parallel 3

# Everything that a run leaves.
expect 0 - '' train --steps 3 --data-parallel 2 --draw --trace trace.json \
    --picture run.svg --log log.jsonl --generate 5 --report-binding --bind none \
    --check-finite
true_that 'a trace' [ -s trace.json ]
true_that 'a picture' [ -s run.svg ]
same 'lines of the log' 4 "$(grep -c '"step"' log.jsonl)"
expect 1 - '~pipetrain: stage 3, microbatch 1, backward-input (3B1): an error on purpose
  rank 0 *
  rank 3 *; the culprit' train --steps 3 --data-parallel 2 --microbatches 2 \
    --fault stage=3,mb=1,op=B,kind=error

# ---- checkpoints ------------------------------------------------------------

differ 'stopped' "$two" \
    "$(digest --microbatches 2 --data-parallel 2 --checkpoint run --stop-at 2)"
same 'resumed' "$two" \
    "$(digest --microbatches 2 --data-parallel 2 --checkpoint run --resume --stages 4)"
rm -r run
digest --microbatches 2 --data-parallel 2 --checkpoint run --stop-at 2 >/dev/null
expect 0 - 'pipetrain: warning: run/step-00000002: the checkpoint has data_parallel 2 and this run 1; the bits will differ from those of the unbroken run' \
    train --steps 4 --microbatches 2 --checkpoint run --resume

# ---- what is refused --------------------------------------------------------

expect 1 '' 'pipetrain: 12 microbatches for a batch of 8 sequences; every microbatch needs a sequence: at most 8 microbatches work' \
    train --data-parallel 3 --microbatches 4
expect 1 '' '~pipetrain: pipedream: 2 copies side by side, and it has STEP: *' \
    train --data-parallel 2 --schedule pipedream --untied
for shares in 1 1,2,3 1,0 "1," ,1 a,b 1,2x; do
    expect 1 '' "pipetrain: --shares '$shares': 2 whole numbers from 1 to 1000000 with commas between them would work, one for each copy of the pipeline (--data-parallel)" \
        train --data-parallel 2 --shares "$shares"
done
expect 2 '' '~pipetrain: --data-parallel 0: must be from 1 to 65535*' train --data-parallel 0

# ---- pipesim ----------------------------------------------------------------

expect 0 - '' pipesim stats bpipe -p 4 -m 8
alone=$(grep '^makespan' ../out)
expect 0 - '' pipesim stats bpipe -p 4 -m 8 --data-parallel 3
same 'as long as alone' "$alone" "$(grep '^makespan' ../out)"
same 'ranks and stages' 'schedule      bpipe: 12 ranks, 12 stages, 24 microbatches' \
    "$(grep '^schedule' ../out)"
expect 0 - '' pipesim draw dualpipe -p 2 -m 4 --data-parallel 2
same 'rows of a drawing' 4 "$(grep -c '^rank\|^ *[0-3] ' ../out)"
expect 0 '~two.csv: valid: 4 ranks, 4 stages, 4 microbatches, 16 actions*' '' \
    pipesim check two.csv -m 2 --placement loop
finish
