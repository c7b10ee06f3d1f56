#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bad_input.sh - what pipetrain refuses, and that it harms nothing by it: one exact
# line, an exit status, no half-written file, and the last good checkpoint untouched.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
make_text 200 >text

# refused STATUS LINE ARGUMENT...: before anything is printed.
refused() {
    status=$1 line=$2
    shift 2
    expect "$status" '' "pipetrain: $line" train "$@"
}

# ---- the text ---------------------------------------------------------------

: >empty
printf abc >short
mkdir folder
refused 1 'empty: the file is empty; a text of more than 8 bytes would work' --data empty
refused 1 'missing: No such file or directory' --data missing
refused 1 'folder: Is a directory' --data folder
refused 1 'short: the training part has 2 bytes; a context of 8 needs 9. A longer text or a smaller context would work' \
    --data short
refused 1 'text: the held-out part has 2 bytes; a context of 8 needs 9. A longer text or a smaller context would work' \
    --val-fraction 0.0001
refused 1 'text: byte 1, in line 1, is 110; a vocabulary of 100 has tokens 0 to 99, and one of 256 takes every byte' \
    --vocab 100

# ---- shapes that do not fit -------------------------------------------------

refused 1 '3 heads for width 16; heads must divide the width: 2 or 4 works' --heads 3
refused 1 '32 heads for width 16; heads must divide the width: 16 works' --heads 32
refused 1 '5 stages for 4 layers; every stage needs a layer: at most 4 stages work' \
    --stages 5
refused 1 '9 microbatches for a batch of 8 sequences; every microbatch needs a sequence: at most 8 microbatches work' \
    --microbatches 9
refused 1 "'2f2b' is not a schedule; there are $(pipesim list |
    sed -n 's/^\([^ ]*\) - .*/\1,/p' | tr '\n' ' ')and files ending in .csv" \
    --schedule 2f2b
refused 1 'none.csv: No such file or directory' --schedule none.csv
expect 0 '' '' pipesim export 1f1b -p 3 -m 4 -o list.csv
refused 1 'list.csv: has 3 ranks; 2 were asked for' --schedule list.csv --stages 2
refused 1 'list.csv: has 4 microbatches; 5 were asked for' --schedule list.csv -m 5
printf '0F0,0F1,0F2,0F3\n' >list.csv
refused 1 'schedule list.csv has no backward action; training needs them' \
    --schedule list.csv
printf '0F0,0F1,0F2,0F3,0B0,0B2,0B3\n' >list.csv
refused 1 'list.csv:1: rank 0: 0B1 is missing' --schedule list.csv
refused 1 "topology 'rubbish' is not hwloc's synthetic form; the levels go from the root to 'pu', as in 'pack:2 core:4 pu:2'" \
    --topology rubbish

# ---- command lines ----------------------------------------------------------

see="; see 'pipetrain --help'"
expect 2 '' "pipetrain: --data FILE is missing$see" pipetrain
refused 2 "unknown option '--zzzzzz'$see" --zzzzzz
expect 2 '' "~pipetrain: unknown option '--stagez', perhaps '--stages' is meant*" \
    train --stagez 3
refused 2 "unknown option '-x'$see" -x
refused 2 "'extra': one operand too many$see" extra
refused 2 "--resume needs --checkpoint DIR$see" --resume
refused 2 "--restart needs --checkpoint DIR$see" --restart 2
refused 2 "--restart needs --checkpoint DIR in the command behind --$see" \
    --checkpoint run --restart 2 -- mpirun pipetrain
refused 2 "'mpirun': a command to restart comes behind --$see" --restart 2 mpirun
refused 2 "--restart -1: must be from 0 to 2147483647$see" --restart -1
for limit in '' x 5x 0 -1s 1e 30ms; do
    refused 2 "--time-limit '$limit': a number above 0 and s, m, h or d, as in 90s or 2.5h, would work$see" \
        --time-limit "$limit"
done
refused 2 "--checkpoint-every needs --checkpoint DIR$see" --checkpoint-every 3
refused 2 "2 stages in chunks of 3; the stages must be a multiple of the chunks$see" \
    --chunks 3
refused 2 "--stages 0: must be from 1 to 65535$see" --stages 0
refused 2 "--stages '2.5': not a whole number$see" --stages 2.5
refused 2 "--stages needs a value (S)$see" --stages
refused 2 "--seed '-1': not a whole number from 0 to 2^64 - 1$see" --seed -1
refused 2 "--lr 'x': not a number$see" --lr x
refused 2 "--lr -1: must be at least 0$see" --lr -1
refused 2 "--dropout 1: must be from 0 to 0.99$see" --dropout 1
refused 2 "--untied takes no value$see" --untied=yes
refused 2 "--bind 'all': must be one of auto, none, core, or CPUs, as in 0,2,4-5 or 0-1:2-3$see" --bind all
refused 2 "--gelu 'fast': must be one of exact, tanh$see" --gelu fast

# ---- other files ------------------------------------------------------------

refused 1 'missing: No such file or directory' --init missing
expect 1 '' '~pipetrain: text: this is not a safetensors file*' train --init text
refused 1 'folder: Is a directory' --log folder
refused 1 'nowhere/log: No such file or directory' --log nowhere/log
expect 1 - 'pipetrain: nowhere/t.json: No such file or directory' \
    train --trace nowhere/t.json
expect 1 '' 'pipetrain: missing.config.json: No such file or directory' \
    pipetrain --check-reference missing
only 'so far' 'empty folder list.csv short text'

# ---- checkpoints that do not fit --------------------------------------------

refused 1 'folder: there is no checkpoint in this folder; they are named step-00000100 and so on' \
    --resume --checkpoint folder
refused 1 'missing: No such file or directory' --resume --checkpoint missing

expect 0 - '' train --checkpoint run --stop-at 10
expect 0 - '' train --checkpoint run --stop-at 15 --resume
good=$(sums run)
unchanged() { # WHAT
    same "$1: the checkpoints" "$good" "$(sums run)"
}

share='a resumed run must share it'
newest=run/step-00000015
refused 1 "$newest: the checkpoint has width 16 and this run 32; $share" \
    --resume --checkpoint run --width 32
refused 1 "$newest: the checkpoint has layers 4 and this run 5; $share" \
    --resume --checkpoint run --layers 5
refused 1 "$newest: the checkpoint has head tied and this run untied; $share" \
    --resume --checkpoint run --untied
refused 1 "$newest: the checkpoint has microbatches 4 and this run 2; $share" \
    --resume --checkpoint run -m 2
refused 1 "$newest: the checkpoint has seed 1 and this run 2; $share" \
    --resume --checkpoint run --seed 2
refused 1 "$newest: the checkpoint has steps 20 and this run 30; $share" \
    --resume --checkpoint run --steps 30
refused 1 'missing: No such file or directory' --resume --checkpoint run --data missing
unchanged 'after refusals'

# ---- checkpoints that are damaged -------------------------------------------

# flip FILE: one bit, of the byte in the middle. It and the next two are called by
# their names in variables, which shellcheck does not see.
# shellcheck disable=SC2317
flip() {
    middle=$(($(wc -c <"$1") / 2))
    byte=$(od -An -tu1 -j "$middle" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf %03o $((byte ^ 1)))" |
        dd of="$1" bs=1 seek="$middle" conv=notrunc 2>/dev/null
}

# shellcheck disable=SC2317
cut_off() {
    bytes=$(($(wc -c <"$1") - 10))
    dd if="$1" of=shorter bs="$bytes" count=1 2>/dev/null
    mv shorter "$1"
}

# Of the manifest the bit is one of a setting, so that it stays JSON.
# shellcheck disable=SC2317
flip_manifest() {
    sed 's/"seed": "1"/"seed": "3"/' "$1" >changed
    mv changed "$1"
}

whole=$(train --digest | tail -n 1)

# damaged HOW FILE REASON: REASON is a pattern of what follows the file's name. The
# older one is used with a warning, or where there is none, that is the end.
damaged() {
    rm -rf copy
    cp -R run copy
    $1 "copy/step-00000015/$2"
    expect 0 "~validation loss * after 10 steps
validation loss * after 20 steps
$whole" "~pipetrain: warning: $3; the one before it is tried" \
        train --digest --resume --checkpoint copy
    same "$1 $2: what was saved then" 'step-00000015 step-00000020' \
        "$(echo copy/* | sed 's|copy/||g')"

    rm -rf copy
    cp -R run copy
    rm -r copy/step-00000010
    $1 "copy/step-00000015/$2"
    damage=$(sums copy)
    expect 1 '' "~pipetrain: $3; no checkpoint in copy is complete" \
        train --digest --resume --checkpoint copy
    same "$1 $2: nothing is written" "$damage" "$(sums copy)"
}

at=copy/step-00000015
damaged cut_off model.safetensors \
    "$at/model.safetensors: tensor wte.weight ends at data byte 66624; the file has 66614 of data: it is cut off"
damaged flip model.safetensors "$at/model.safetensors: the checksum of tensor * is wrong"
damaged cut_off optimizer.safetensors \
    "$at/optimizer.safetensors: tensor v.wte.weight ends at data byte 133248; the file has 133238 of data: it is cut off"
damaged flip optimizer.safetensors \
    "$at/optimizer.safetensors: the checksum of tensor * is wrong"
damaged cut_off manifest.json '*/manifest.json: line *: this is not JSON'
damaged flip_manifest manifest.json "$at/manifest.json: its checksum is wrong"
for file in model.safetensors optimizer.safetensors manifest.json; do
    damaged 'rm -f' $file "$at/$file: No such file or directory"
done
rm -r copy
unchanged 'after damage to copies'

# ---- places where no checkpoint can be written ------------------------------

expect 1 - 'pipetrain: text: Not a directory' train --checkpoint text
unchanged 'a file for a folder'

# A folder that is there, and room for less than one of its files.
expect 1 - '~pipetrain: run/step-00000020.tmp/*.safetensors: File too large' \
    env GCOV_PREFIX=/dev/null GCOV_ERROR_FILE=/dev/null sh -c '
        trap "" XFSZ
        ulimit -f 120
        exec pipetrain "$@"' sh --data text --layers 4 --heads 2 --width 16 --context 8 \
    --batch 8 --microbatches 4 --steps 20 --warmup 2 --quiet --checkpoint run --resume
unchanged 'a file that would be too large'

# A full disk: one checkpoint fits into it and a second does not.
mkdir full
if unshare -rm mount -t tmpfs none full 2>/dev/null; then
    cat >on_full_disk.sh <<'END'
mount -t tmpfs -o size=300k none full || exit
cp -R run/step-00000010 full
(cd full && sha256sum step-00000010/*) >before
pipetrain "$@" --checkpoint full --resume
status=$?
(cd full && sha256sum step-00000010/*) >after
ls full >left
exit $status
END
    expect 1 - '~pipetrain: full/step-00000020.tmp/*: No space left on device' \
        unshare -rm sh on_full_disk.sh --data text --layers 4 --heads 2 --width 16 \
        --context 8 --batch 8 --microbatches 4 --steps 20 --warmup 2 --quiet
    same 'a full disk: the last good checkpoint' "$(cat before)" "$(cat after)"
    same 'a full disk: what is left' step-00000010 "$(cat left)"
    rm -f on_full_disk.sh before after left
else
    skip 'a full disk, since no file system can be mounted here'
fi
rmdir full

only 'the end' 'empty folder list.csv run short text'
finish
