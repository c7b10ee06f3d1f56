#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# pipetrain.sh - the same weights to the bit whatever the pipeline, runs that are ended
# and go on, and the files that a run leaves.
# shellcheck source=tests/cli/lib.sh disable=SC1091
models=$(cd "${srcdir:-.}" && pwd)/tests/data/models
. "${srcdir:-.}/tests/cli/lib.sh" || exit
make_text 200 >text

# digest ARGUMENT...: of the weights that such a run ends in.
digest() {
    found=$(train --digest "$@" 2>../err | sed -n 's/^digest sha256://p')
    [ ${#found} -eq 64 ] || fail "train $*: no digest" 'digest sha256:...' "$(cat ../err)"
    echo "$found"
}

# ---- the same bits ----------------------------------------------------------

plain=$(digest)
for stages in 1 2 3 4; do
    for schedule in gpipe 1f1b; do
        same "--stages $stages --schedule $schedule" "$plain" \
            "$(digest --stages $stages --schedule $schedule)"
    done
done
same '--bind none' "$plain" "$(digest --stages 3 --bind none)"
same 'PENSTOCK_BIND=none' "$plain" "$(PENSTOCK_BIND=none && export PENSTOCK_BIND &&
    digest --stages 3)"
same 'BLAS threads left to it' "$plain" "$(unset OPENBLAS_NUM_THREADS && digest)"
same 'chunks, in a list of one row' "$plain" "$(
    printf '0F0,1F0,1B0,0B0,0F1,1F1,1B1,0B1,0F2,0F3,1F2,1F3,1B2,1B3,0B3,0B2\n' >v.csv
    digest --schedule v.csv --stages 2 --chunks 2)"

if taskset -c 0 true 2>/dev/null; then
    same 'on one CPU' "$plain" "$(train_on_cpu 0 --digest --stages 4 |
        sed -n 's/^digest sha256://p')"
else
    skip 'one CPU, since taskset cannot bind to CPU 0'
fi

for options in '' --comms; do
    # shellcheck disable=SC2086 # one word or none
    expect 0 '' '' pipesim export 1f1b -p 3 -m 4 $options -o list.csv
    same "a list from a file, $options" "$plain" "$(digest --schedule list.csv)"
done
# A split backward, and backwards that descend: sums are in one order all the same.
printf '0F0,0F1,0F2,0F3,0I3,0W3,0I2,0I1,0W2,0W1,0I0,0W0\n1F0,1F1,1F2,1F3,1B3,1B2,1B1,1B0\n' \
    >list.csv
same 'a list of one'"'"'s own' "$plain" "$(digest --schedule list.csv)"
printf '0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n1F0,(1F1;1B0)OVERLAP_F_B,(1F2;1B1)OVERLAP_F_B,1B2,1F3,1B3\n' \
    >list.csv
same 'a list with pairs' "$plain" "$(digest --schedule list.csv)"

# Of as many microbatches as sequences; those with two chunks a rank are on two ranks.
plain8=$(digest --microbatches 8 --stages 1)
for schedule in eager-1f1b interleaved looped-bfs zb-h1 zb-h2 interleaved-zb zb-v \
    dualpipev hanayo gis bpipe; do
    case $schedule in
    eager-1f1b | zb-h1 | zb-h2 | bpipe) chunks=1 ;;
    *) chunks=2 ;;
    esac
    same "--schedule $schedule --chunks $chunks" "$plain8" \
        "$(digest --microbatches 8 --stages 4 --schedule $schedule --chunks $chunks)"
done

# Two replicas add up in an order of their own: the same loss, and the same bits again.
loss8=$(train --microbatches 8 --stages 1 | tail -n 1)
for schedule in dualpipe chimera; do
    replicas="--microbatches 8 --stages 8 --chunks 2 --schedule $schedule"
    # shellcheck disable=SC2086 # one word an argument
    expect 0 "~*
$loss8" '' train $replicas
    # shellcheck disable=SC2086
    same "$replicas, twice" "$(digest $replicas)" "$(digest $replicas)"
done
expect 0 '' '' pipesim export dualpipe -p 4 -m 8 -o two.csv
same 'dualpipe from a file' "$(digest --microbatches 8 --stages 8 --chunks 2 \
    --schedule dualpipe)" "$(digest --microbatches 8 --schedule two.csv)"

# Each stage steps by itself, and the delays are the list's: no other run has these bits.
for more in 'pipedream' 'pipedream-2bw --group 2'; do
    # shellcheck disable=SC2086 # one word an argument
    stale=$(digest --untied --stages 4 --microbatches 8 --schedule $more)
    # shellcheck disable=SC2086
    same "$more, twice" "$stale" \
        "$(digest --untied --stages 4 --microbatches 8 --schedule $more)"
    differ "$more" "$stale" "$(digest --untied --stages 4 --microbatches 8)"
done
expect 0 '' '' pipesim export pipedream-2bw -p 4 -m 8 --group 2 --extended -o stale.csv
same 'pipedream-2bw from a file' "$stale" "$(digest --untied --microbatches 8 \
    --schedule stale.csv)"
expect 1 '' 'pipetrain: schedule pipedream steps each stage by itself, and a tied head needs the gradients of two; an untied model would work' \
    train --schedule pipedream --stages 4

# Sequences in slices: bits of their own for each number of them, and the same loss.
for slices in 2 3; do
    cut=$(digest --schedule seq1f1b --slices $slices --stages 1)
    differ "--slices $slices" "$plain" "$cut"
    same "--slices $slices --stages 4" "$cut" \
        "$(digest --schedule seq1f1b --slices $slices --stages 4)"
    expect 0 '' '' pipesim export seq1f1b -p 3 -m 4 --slices $slices -o cut.csv
    same "$slices slices from a file" "$cut" "$(digest --schedule cut.csv)"
    rm cut.csv.meta.json
    same "$slices slices from a file without its neighbour" "$cut" \
        "$(digest --schedule cut.csv --slices $slices)"
done
same 'seq1f1b, --slices 1' "$plain" "$(digest --schedule seq1f1b --slices 1)"
expect 0 "~*
$(train --stages 1 | tail -n 1)" '' train --schedule seq1f1b --stages 4
expect 1 '' 'pipetrain: 1f1b has no slices; seq1f1b has' train --slices 2
expect 1 '' 'pipetrain: schedule forward-only has no backward action; training needs them' \
    train --schedule forward-only --stages 4
expect 1 '' 'pipetrain: zb-v: 1 chunk a rank; it puts two stages on each rank: use 2' \
    train --schedule zb-v --stages 4

untied=$(digest --untied)
differ '--untied' "$plain" "$untied"
for stages in 1 3 4; do
    same "--untied --stages $stages" "$untied" "$(digest --untied --stages $stages)"
done
dropped=$(digest --dropout 0.1 --bias --gelu tanh --stages 1)
differ '--dropout' "$plain" "$dropped"
for stages in 2 4; do
    same "--dropout --stages $stages" "$dropped" \
        "$(digest --dropout 0.1 --bias --gelu tanh --stages $stages --schedule gpipe)"
done

# 8 sequences in 3 microbatches: 3, 3 and 2.
uneven=$(digest --microbatches 3 --stages 1)
for stages in 2 3 4; do
    same "3 microbatches, --stages $stages" "$uneven" \
        "$(digest --microbatches 3 --stages $stages)"
done
same '3 microbatches, gpipe' "$uneven" \
    "$(digest --microbatches 3 --stages 4 --schedule gpipe)"

differ '--seed 2' "$plain" "$(digest --seed 2)"
differ '--steps 21' "$plain" "$(digest --steps 21)"

# ---- ended and resumed ------------------------------------------------------

differ '--stop-at 10' "$plain" "$(digest --stop-at 10 --checkpoint run)"
same 'after --stop-at 10' step-00000010 "$(ls run)"
same 'resumed' "$plain" "$(digest --resume --checkpoint run --stages 3 --schedule gpipe)"
same 'resumed when done' "$plain" "$(digest --resume --checkpoint run)"
same 'two are kept' 'step-00000010 step-00000020' "$(echo run/* | sed 's|run/||g')"
differ 'every 3, to 14' "$plain" "$(digest --checkpoint-every 3 --checkpoint run3 --stop-at 14)"
same 'the two newest of them' 'step-00000012 step-00000014' \
    "$(echo run3/* | sed 's|run3/||g')"

# until_logged N: the run in the background has logged that many steps, or has ended.
until_logged() {
    while kill -0 $! 2>/dev/null && [ "$(wc -l <log)" -lt "$1" ]; do
        sleep 0.02 2>/dev/null || sleep 1
    done
}

# A run must not be over before its signal comes: more steps until it is not.
for steps in 1500 6000 24000; do
    rm -rf ended log
    : >log
    start_train --steps "$steps" --log log --checkpoint ended
    until_logged 5
    kill -TERM $! 2>/dev/null || :
    wait $! && status=0 || status=$?
    grep -q '^stopped by signal' ../out && break
done
same 'SIGTERM: exit status' 0 "$status"
same 'SIGTERM: standard error' '' "$(cat ../err)"
last=$(tail -n 1 log | sed 's/^{"step": \([0-9]*\),.*/\1/')
holds SIGTERM "stopped by signal 15 after step $last; the checkpoint is in ended, go on with --resume"
same 'SIGTERM: what is kept' "$(printf 'step-%08d' "$last")" "$(ls ended)"
whole=$(digest --steps "$steps")
same 'SIGTERM, then resumed' "$whole" \
    "$(digest --steps "$steps" --log log --checkpoint ended --resume --stages 4)"
same 'the log goes on' "$steps" \
    "$(sed 's/^{"step": \([0-9]*\),.*/\1/' log | sort -n -u | wc -l | tr -d ' ')"

# Without a folder there is nothing to go on from, and that is a failure.
: >log
start_train --steps 1000000 --log log
until_logged 5
kill -TERM $! 2>/dev/null || :
wait $! && status=0 || status=$?
same 'SIGTERM without --checkpoint: exit status' 1 "$status"
same 'SIGTERM without --checkpoint' \
    "pipetrain: stopped by signal 15 after step $(wc -l <log | tr -d ' '); nothing was saved, since there is no --checkpoint DIR" \
    "$(cat ../err)"

# until_saved: the run in the background has saved a whole checkpoint, or has ended.
until_saved() {
    while set -- killed/step-????????; ! [ -e "$1" ] && kill -0 $! 2>/dev/null; do
        sleep 0.02 2>/dev/null || sleep 1
    done
}

# Killed at any moment after the first save, some whole checkpoint is there.
whole=$(digest --steps 120)
for logged in 2 9 23; do
    rm -rf killed
    : >log
    start_train --steps 120 --log log --checkpoint killed --checkpoint-every 1
    until_logged $logged
    until_saved
    kill -KILL $! 2>/dev/null || :
    wait $! 2>/dev/null || :
    same "SIGKILL after $logged steps, then resumed" "$whole" \
        "$(digest --steps 120 --checkpoint killed --checkpoint-every 1 --resume)"
    same "SIGKILL after $logged steps: what is left" 'step-00000119 step-00000120' \
        "$(echo killed/* | sed 's|killed/||g')"
done

# kills POINT: of a save, and the run with it.
# shellcheck disable=SC2317 # true_that calls it
kills() {
    PENSTOCK_KILL_AT=$1 start_train --steps 120 --checkpoint killed --checkpoint-every 1
    wait $! && kills_status=0 || kills_status=$?
    [ "$kills_status" -eq 137 ]
}

for point in snapshot shard-half:7 shard-synced:4 before-manifest:4 manifest-written:4 \
    before-rename:5 renamed:5 pruning:2; do
    rm -rf killed
    true_that "killed at $point" kills "$point"
    # Where it was killed in its first save there is nothing to go on from.
    resume=--resume
    [ "$point" != snapshot ] || resume=
    # shellcheck disable=SC2086 # no word or one
    same "killed at $point, then resumed" "$whole" \
        "$(digest --steps 120 --checkpoint killed --checkpoint-every 1 $resume)"
    same "killed at $point: what is left" 'step-00000119 step-00000120' \
        "$(echo killed/* | sed 's|killed/||g')"
done

# ---- ended by the clock, restarted -------------------------------------------

rm -rf timed
expect 0 '~*
stopped by --time-limit, 0.2 s after step *; the checkpoint is in timed, go on with --resume' \
    '' train --steps 1000000 --time-limit 0.2 --checkpoint timed
true_that 'the clock has let a step through' ls -d timed/step-0*
expect 1 - '~pipetrain: stopped by --time-limit, 0.001 s after step 1; nothing was saved*' \
    train --time-limit 0.001s

# Killed in each start's third save.
rm -rf killed
# shellcheck disable=SC2086 # one word an argument
expect 0 - "$(printf 'pipetrain: restart %d of 200: pipetrain was killed by signal 9; it goes on with --resume\n' $(seq 2))" \
    env PENSTOCK_KILL_AT=renamed:3 pipetrain $cli_tiny --restart=200 --steps 40 \
    --digest --checkpoint killed --checkpoint-every 6
same 'restarted: digest' "$(digest --steps 40)" "$(sed -n 's/^digest sha256://p' ../out)"
rm -rf killed
# shellcheck disable=SC2086
expect 137 - "pipetrain: restart 1 of 1: pipetrain was killed by signal 9; it begins anew, since there is no checkpoint yet
pipetrain: pipetrain was killed by signal 9, and 1 restart did not help" \
    env PENSTOCK_KILL_AT=snapshot pipetrain $cli_tiny --restart 1 --checkpoint killed
expect 127 '' 'pipetrain: ./none: No such file or directory' \
    pipetrain --restart 3 -- ./none --checkpoint killed
expect 2 '' "pipetrain: unknown option '--zzzzzz'; see 'pipetrain --help'" \
    pipetrain --restart 3 -- pipetrain --checkpoint killed --zzzzzz

# What a command leaves behind has ended before the next one starts.
cat >leaves <<'END'
#!/bin/sh
[ ! -s left ] || ! kill -0 "$(cat left)" 2>/dev/null || echo "it is still there"
sleep 0.3 &
echo $! >left
exit 3
END
chmod +x leaves
expect 3 '' 'pipetrain: restart 1 of 1: leaves ended with status 3; it begins anew, since there is no checkpoint yet
pipetrain: leaves ended with status 3, and 1 restart did not help' \
    pipetrain --restart 1 -- ./leaves --checkpoint killed
kill -0 "$(cat left)" 2>/dev/null && fail 'a process is left behind'

# ---- other outputs ----------------------------------------------------------

rm log
expect 0 - '' train --log log --trace trace.json --picture picture.svg --draw \
    --prompt 'In the' --generate 30 --stages 2
first=$(sed -n '1p' ../out)
same 'first line' 'validation loss 5.' "$(echo "$first" | cut -c 1-18)"
same 'the sample' 1 "$(grep -a -c '^In the' ../out)"
holds 'the sample' '--- sample ---'
holds 'the sample' '--- end of sample ---'
holds 'two pictures' '1f1b, predicted'
holds 'two pictures' '1f1b, measured'

number='-\{0,1\}[0-9][0-9.e+-]*'
line="{\"step\": $number, \"loss\": $number, \"gradient_norm\": $number, \"lr\": $number"
line="$line, \"tokens\": 64, \"seconds\": $number, \"tokens_per_second\": $number"
line="$line, \"makespan\": $number, \"bubble\": $number"
same 'log: lines of steps' 20 "$(grep -c "^$line}\$" log)"
same 'log: the last line' 1 "$(tail -n 1 log | grep -c "^$line, \"val_loss\": $number}\$")"
same 'log: lines' 21 "$(wc -l <log | tr -d ' ')"
same 'log: steps' "$(awk 'BEGIN { for (i = 1; i <= 20; i++) print i; print 20 }')" \
    "$(sed 's/^{"step": \([0-9]*\),.*/\1/' log)"
# 16 actions a step, at most 20 steps.
same 'trace: actions' 0 $(($(grep -c '"ph": "X"' trace.json) % 16))
differ 'trace: actions' 0 "$(grep -c '"ph": "X"' trace.json)"
same 'picture: last line' '</svg>' "$(tail -n 1 picture.svg)"

expect 0 - '' train --generate 12 --temperature 0 --prompt a
cp ../out one
expect 0 - '' train --generate 12 --temperature 0 --prompt a --stages 4 --seed 1
true_that 'generation is the same on other stages' cmp one ../out

expect 0 '~rank 0: thread *
rank 1: thread *
rank 2: thread *
validation loss * after 0 steps
validation loss * after 20 steps' '' train --report-binding --stages 3
same '--report-binding --bind none' 2 "$(train --report-binding --stages 2 --bind none |
    grep -c '^rank [01]: .* not bound, may use CPU ')"

expect 0 '~data      text: * bytes to train on, * held out
model     gpt: 4 layers, 4 heads, width 16, context 8, vocabulary 256: *
pipeline  1f1b: 2 stages on 2 ranks, 12 sequences in 4 microbatches, *
validation loss * after 0 steps
validation loss * after 1 steps
makespan * measured, * predicted from measured costs (*)*' '~step 1/1  loss *' \
    pipetrain --data text --width 16 --context 8 --steps 1

expect 0 '~pipetrain (Penstock) [0-9]*.[0-9]*.[0-9]*
OpenBLAS  OpenBLAS *; * build, * kernels
kernels   *' '' pipetrain --version
expect 0 '~Usage: pipetrain *' '' pipetrain --help

# ---- another program's numbers ----------------------------------------------

for stages in 1 2 3 4; do
    expect 0 '~*largest relative error *: agrees' '' \
        pipetrain --check-reference "$models/gpt2-tiny" --stages $stages
done
expect 0 '~*largest relative error *: agrees' '' \
    pipetrain --check-reference "$models/gpt2-tiny" --stages 4 --schedule gpipe

# The weights of a checkpoint are a start like any other file's.
line=$(train | tail -n 1 | sed 's/20 steps/0 steps/')
expect 0 "$line
$line" '' train --steps 0 --init run/step-00000020/model.safetensors

if [ -w /dev/full ]; then
    expect 1 '' 'pipetrain: standard output: No space left on device' \
        sh -c 'pipetrain --help >/dev/full'
    expect 1 '' '~pipetrain: standard output: *' \
        sh -c 'pipetrain --data text --width 16 --context 8 --steps 1 --quiet >/dev/full'
    expect 1 - 'pipetrain: /dev/full: No space left on device' train --log /dev/full
    expect 1 - 'pipetrain: /dev/full: No space left on device' train --trace /dev/full
else
    skip 'a full device, since there is no /dev/full'
fi

finish
