#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi_hosts_gone.sh - a job on two hosts, one of which goes away: --restart goes on with
# fewer processes on the other, to the weights of the unbroken run.
#
# The hosts are names that only a shell for the launcher knows, on this machine. A host
# goes away when all that its shell has started is killed, and the shell then refuses it.
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"

# What killed processes leave behind goes away with the folder of this test.
TMPDIR=$cli_scratch
export TMPDIR

# What launchers take for ssh: [OPTION...] HOST COMMAND, which goes to a shell.
cat >../agent <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
[ ! -e "$0.$1.gone" ] || exit 255
# Launchers keep files there by the name of the machine, which is the same for all.
TMPDIR=$0.$1.tmp
PENSTOCK_ON_HOST=$0.$1
mkdir -p "$TMPDIR"
export TMPDIR PENSTOCK_ON_HOST
shift
exec sh -c "$*"
END
chmod +x ../agent
agent=$cli_scratch/agent
case $MPI_NAME in
openmpi)
    # Nor can they have memory in common: its files have such names too.
    options="$options --mca plm_rsh_agent $agent --mca btl tcp,self
        --mca btl_tcp_if_include lo"
    hosts='--host one:2,two:2' file='--hostfile hosts'
    printf '# both\none slots=2\n\ntwo slots=2 # more\n' >hosts
    ;;
mpich)
    options="-launcher ssh -launcher-exec $agent"
    hosts='-hosts one:2,two:2' file='-f hosts'
    printf '# both\none:2\n\ntwo:2\n' >hosts
    ;;
*)
    skip "how $library starts processes elsewhere"
    exit 77
    ;;
esac

# lose HOST: as if its power went out.
lose() {
    : >"$agent.$1.gone"
    grep -lsxz "PENSTOCK_ON_HOST=$agent.$1" /proc/[0-9]*/environ | cut -d / -f 3 |
        xargs kill -9 2>/dev/null
}

# until_true COMMAND...: it succeeds, or the supervisor has ended.
until_true() {
    while kill -0 "$supervisor" 2>/dev/null && ! "$@"; do
        sleep 0.02
    done
}

# shellcheck disable=SC2317 # until_true calls it
# has_steps N: so many have been logged.
has_steps() {
    [ "$(count_steps)" -ge "$1" ]
}

make_text 40 >text
steps=1500
set -- --data text --layers 4 --heads 2 --width 16 --context 8 --batch 8 \
    --microbatches 4 --warmup 2 --val-fraction 0 --quiet --steps $steps --stages 4
whole=$("$program" "$@" --digest | sed -n 's/^digest sha256://p')
same 'a digest' 64 ${#whole}

# restarted RESTARTS HOSTS PROCESSES ARGUMENT...: in the background.
restarted() {
    rm -rf saved log "$agent".*.gone
    most=$1 given=$2 processes=$3
    shift 3
    # shellcheck disable=SC2086 # one word an argument
    pipetrain --restart "$most" -- $MPIEXEC $options $given -n "$processes" "$program" \
        "$@" --log log --checkpoint saved --checkpoint-every 20 --digest \
        >../out 2>../err </dev/null &
    supervisor=$!
}

# ended STATUS
ended() {
    wait "$supervisor" && status=0 || status=$?
    cli_checks=$((cli_checks + 1))
    [ "$status" -eq "$1" ] ||
        fail "$cli_what: exit status" "$1" "$status: $(cat ../out ../err)"
}

# said PATTERN: once, by the supervisor.
said() {
    same "$cli_what: $1" 1 "$(grep -c -e "^pipetrain: $1\$" ../err)"
}

for given in "$hosts" "$file"; do
    cli_what=$given
    restarted 2 "$given" 4 "$@"
    until_true has_steps 60
    began=$(tenths) logged=$(count_steps)
    lose two
    until_true grep -q 'restart 1 of 2' ../err
    until_true has_steps $((logged + 100))
    took=$(($(tenths) - began))
    printf '%s: %s: a hundred steps more %d.%d s after the host went away\n' "$cli_name" \
        "$given" $((took / 10)) $((took % 10))
    ended 0
    said 'restart 1 of 2: .*; it goes on with --resume'
    said 'two does not answer: 2 processes go on, on one'
    same "$cli_what: digest" "$whole" "$(sed -n 's/^digest sha256://p' ../out)"
done

finish
