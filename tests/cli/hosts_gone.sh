#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hosts_gone.sh - with which command --restart goes on where hosts do not answer: by a
# launcher that only writes down what it is told.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit

# What is to run `true` succeeds on hosts but those called lost or silent. All else fails,
# and leaves its words in `jobs`, with what is in a file of hosts behind them.
cat >mpirun <<'END'
#!/bin/sh
option='' file='' hosts=''
for word; do
    case $option in
    -f | -machinefile | --hostfile) file=$word hosts=$(cat "$word" 2>/dev/null) ;;
    -H | -hosts | --host) hosts=$word ;;
    esac
    option=$word
done
words=$(echo "$*" | sed "s|${file:-FILE}|FILE|")
if [ "$word" = true ]; then
    echo "$words" >>asked
    case $hosts in
    *lost*) exit 1 ;;
    *silent*) exec sleep 1000 ;;
    esac
    exit 0
fi
echo "$words" >>jobs
[ ! -e "$file" ] || sed 's/^/    /' "$file" >>jobs
exit 3
END
chmod +x mpirun
cp mpirun mpiexec.hydra
cp mpirun srun
PATH=$(pwd):$PATH

# restarted LINE JOB COMMAND...: once; with that line beside those of every restart, and
# that job, the second one.
restarted() {
    restarted_line=$1 restarted_job=$2
    shift 2
    rm -f jobs asked
    expect 3 '' - pipetrain --restart 1 -- "$@" pipetrain --checkpoint run
    same "$*: the line" "$restarted_line" "$(sed '1d; $d; s/^pipetrain: //' ../err)"
    same "$*: the job" "$restarted_job" "$(awk '/pipetrain/ { job++ } job == 2' jobs)"
}

# ---- lists ------------------------------------------------------------------

restarted '' '--host a:2,b:2 -n 4 pipetrain --checkpoint run' \
    mpirun --host a:2,b:2 -n 4
same 'all are asked' '--host a:2 -n 1 true
--host b:2 -n 1 true' "$(sort asked)"
restarted 'lost does not answer: 2 processes go on, on a' \
    '--bind-to none --host a:2 -np 2 -x A=b pipetrain --checkpoint run' \
    mpirun --bind-to none --host a:2,lost:2 -np 4 -x A=b
same 'other options are those of the run' \
    '--bind-to none --host a:2 -np 1 -x A=b true
--bind-to none --host lost:2 -np 1 -x A=b true' "$(sort asked)"
restarted 'lost, lost2 do not answer: 1 process goes on, on a' \
    '-hosts a -n 1 pipetrain --checkpoint run' mpiexec.hydra -hosts lost,a,lost2 -n 3
# Twice the same, which is asked once; and more slots than processes.
restarted 'lost does not answer: 3 processes go on, on a, b' \
    '-H a,a,b:5 -c 3 pipetrain --checkpoint run' mpirun -H a,lost:2,a,b:5,lost -c 3
same 'each is asked once' '-H a,a -c 1 true
-H b:5 -c 1 true
-H lost:2,lost -c 1 true' "$(sort asked)"
# More processes than slots: their share; and at least one.
restarted 'lost does not answer: 4 processes go on, on a, b' \
    '-hosts a,b -n 4 pipetrain --checkpoint run' mpiexec.hydra -hosts a,b,lost -n 6
restarted 'lost does not answer: 1 process goes on, on a' \
    '-hosts a -n 1 pipetrain --checkpoint run' mpiexec.hydra -hosts a,lost:4 -n 1
# A number that is not given is the launcher's to choose.
restarted 'lost does not answer: it goes on, on a' \
    '--host a:2 pipetrain --checkpoint run' mpirun --host a:2,lost:2
same 'it is asked by one process' '-n 1 --host a:2 true' "$(sort asked | sed -n 1p)"
# What starts the launcher, and what it starts the program with; folders of that name.
mkdir pipetrain
restarted 'lost does not answer: 1 process goes on, on a' \
    "-wdir $(pwd)/pipetrain --host a -n 1 nice -n 3 pipetrain --checkpoint run" \
    env A=b mpirun -wdir "$(pwd)/pipetrain" --host a,lost -n 2 nice -n 3
rmdir pipetrain

# ---- files ------------------------------------------------------------------

printf '# all of them\n\na slots=2 # it slots=9\n  lost   slots = 4 max_slots=8\nuser@b\tslots=3\n' >hosts
restarted 'lost does not answer: 5 processes go on, on a, user@b' \
    '--hostfile FILE -n 5 pipetrain --checkpoint run
    a slots=2 # it slots=9
    user@b	slots=3' mpirun --hostfile hosts -n 9
printf 'a:2\r\nlost:4 binding=user:0\n#b:2\nb\n' >hosts
restarted 'lost does not answer: 3 processes go on, on a, b' \
    "-f FILE -n 3 pipetrain --checkpoint run
    a:2$(printf '\r')
    b" mpiexec.hydra -f hosts -n 7

# ---- processes that were told apart -----------------------------------------

rm -f jobs
expect 3 '' '~*
pipetrain: lost does not answer: 2 processes go on, on a, without --workers 1,1,1,1
*' pipetrain --restart 1 -- mpirun --host a:2,lost:2 -n 4 pipetrain --workers 1,1,1,1 \
    --checkpoint run
same 'no workers' '--host a:2 -n 2 pipetrain --checkpoint run' "$(sed 1d jobs)"
rm -f jobs
expect 3 '' '~*
pipetrain: lost does not answer: 2 processes go on, on a
*' pipetrain --restart 1 -- mpirun --host a:2,lost:2 -n 2 pipetrain --checkpoint run \
    --workers=3,1
same 'the same workers' '--host a:2 -n 2 pipetrain --checkpoint run --workers=3,1' \
    "$(sed 1d jobs)"

# ---- hosts that come back, and none -----------------------------------------

rm -f jobs
mkdir -p run/step-00000001
sed 's/\*lost\*) exit 1/*lost*) [ -e once ] || { : >once \&\& exit 1; }/' mpirun >mpiexec
chmod +x mpiexec
expect 3 '' 'pipetrain: restart 1 of 2: mpiexec ended with status 3; it goes on with --resume
pipetrain: lost does not answer: 2 processes go on, on a
pipetrain: restart 2 of 2: mpiexec ended with status 3; it goes on with --resume
pipetrain: mpiexec ended with status 3, and 2 restarts did not help' \
    pipetrain --restart 2 -- mpiexec --host a:2,lost:2 -n 4 pipetrain --checkpoint run
same 'the jobs' '--host a:2,lost:2 -n 4 pipetrain --checkpoint run
--host a:2 -n 2 pipetrain --checkpoint run --resume
--host a:2,lost:2 -n 4 pipetrain --checkpoint run --resume' "$(cat jobs)"
rm -r run
expect 1 '' "pipetrain: restart 1 of 1: mpiexec.hydra ended with status 3; it begins anew, since there is no checkpoint yet
pipetrain: no host of lost,silent has run 'true' within 20 s, and there is none to go on" \
    pipetrain --restart 1 -- mpiexec.hydra -hosts lost,silent -n 4 pipetrain \
    --checkpoint run

# ---- what is not understood is started as it is -----------------------------

restarted '' 'a -n 1 pipetrain : -hosts lost -n 1 pipetrain --checkpoint run' \
    mpirun a -n 1 pipetrain : -hosts lost -n 1
restarted '' '-hosts a -hosts lost -n 2 pipetrain --checkpoint run' \
    mpirun -hosts a -hosts lost -n 2
restarted '' '-hosts lost -rankfile a -n 2 pipetrain --checkpoint run' \
    mpirun -hosts lost -rankfile a -n 2
restarted '' '--host +n1,lost -n 2 pipetrain --checkpoint run' \
    mpirun --host +n1,lost -n 2
restarted '' '--host lost -n 0x2 pipetrain --checkpoint run' mpirun --host lost -n 0x2
restarted '' '-machinefile FILE -n 2 pipetrain --checkpoint run' \
    mpirun -machinefile none -n 2
restarted '' '--host lost -n 2 pipetrain --checkpoint run' srun --host lost -n 2
restarted '' '-n 2 pipetrain --checkpoint run' mpirun -n 2
true_that 'nobody is asked' [ ! -e asked ]

finish
