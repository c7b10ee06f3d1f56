#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# two_hosts.sh - two processes on what they take for two machines: network namespaces
# with a host name each, and a link of 100 Mbit/s between them. First the link is cut, and
# --restart goes on without the second host.
#
# As root, with ip, tc and unshare, and the launcher of the MPI found by configure. By
# hand, from the folder where make has run, with top_builddir, srcdir, MPI_NAME and
# MPIEXEC as tests/local.mk sets them, and any of
#
#   TWO_HOSTS_RUN='tests/bench/bench_network -m 8'   a command to run there instead
#   TWO_HOSTS_PROCESSES=4                            of so many processes
#   TWO_HOSTS_OPTIONS='--mca btl_tcp_links 2'        further options of the launcher
#   TWO_HOSTS_MBIT=1000                              the link's rate
#   TWO_HOSTS_SHELL=1                                a shell on the first host
tests=$(cd "${srcdir:-.}/tests/cli" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "${srcdir:-.}/tests/cli/lib.sh" || exit

give_up() {
    skip "$1"
    exit 77
}
[ "$(id -u)" = 0 ] || give_up 'this is not root'
for command in ip tc unshare hostname; do
    command -v $command >/dev/null 2>&1 || give_up "there is no $command"
done
# shellcheck source=tests/cli/mpi_lib.sh disable=SC1091
. "$tests/mpi_lib.sh"

# ---- two hosts --------------------------------------------------------------

first=penstock-$$-a second=penstock-$$-b
address_a=10.203.1.1 address_b=10.203.1.2 network=10.203.1.0/24
rate=${TWO_HOSTS_MBIT:-100}

# shellcheck disable=SC2317 # the trap calls it
remove_hosts() {
    for host in $first $second; do
        for process in $(ip netns pids "$host" 2>/dev/null); do
            kill -9 "$process" 2>/dev/null
        done
        ip netns del "$host" 2>/dev/null
    done
    cd / && rm -rf "$cli_scratch"
}
trap remove_hosts EXIT

# configure_host NAMESPACE ADDRESS
configure_host() {
    ip -n "$1" link set lo up &&
        ip -n "$1" address add "$2/24" dev link0 &&
        ip -n "$1" link set link0 up &&
        ip netns exec "$1" tc qdisc add dev link0 root tbf rate "${rate}mbit" \
            burst 64kb latency 400ms
}
{
    ip netns add $first && ip netns add $second &&
        ip link add link0 netns $first type veth peer name link0 netns $second &&
        configure_host $first $address_a && configure_host $second $address_b
} 2>../err || give_up "namespaces, a veth pair or tbf: $(cat ../err)"

# Its carrier shows a moment later, and UCX takes no network that has none.
for host in $first $second; do
    tries=0
    until [ "$(ip netns exec "$host" cat /sys/class/net/link0/operstate)" = up ] ||
        [ $tries -eq 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
done

# on HOST COMMAND...: with that host's network and name.
cat >../on <<'END'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
END
# What launchers take for ssh: [OPTION...] HOST COMMAND, which goes to a shell.
cat >../agent <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in
$address_a) host=$first ;;
$address_b) host=$second ;;
*) exit 255 ;;
esac
shift
exec "$cli_scratch/on" "\$host" sh -c "\$*"
END
chmod +x ../on ../agent

case $MPI_NAME in
openmpi)
    start="$MPIEXEC --bind-to none --mca plm_rsh_agent $cli_scratch/agent
        --host $address_a:4,$address_b:4 --map-by node --oversubscribe
        --mca btl_tcp_if_include $network --mca oob_tcp_if_include $network
        ${TWO_HOSTS_OPTIONS:-}"
    ;;
mpich)
    # UCX, where MPICH has it, would find shared memory, as it asks for no name.
    start="$MPIEXEC -launcher ssh -launcher-exec $cli_scratch/agent
        -localhost $address_a -hosts $address_a,$address_b -genv UCX_TLS tcp,self
        ${TWO_HOSTS_OPTIONS:-}"
    ;;
esac

# shellcheck disable=SC2317 # expect calls it
# launch PROCESSES COMMAND...: in turn on the two hosts.
launch() {
    launch_count=$1
    shift
    # shellcheck disable=SC2086 # one word an argument
    timeout -k 5 "${TWO_HOSTS_SECONDS:-120}" ../on $first $start -n "$launch_count" "$@"
}

if [ "${TWO_HOSTS_SHELL:-0}" = 1 ]; then
    echo "$start"
    ../on $first sh
    exit
fi
if [ -n "${TWO_HOSTS_RUN:-}" ]; then
    cd "$build" || exit 1
    # shellcheck disable=SC2086 # one word an argument
    timeout -k 5 "${TWO_HOSTS_SECONDS:-600}" "$cli_scratch/on" $first $start \
        -n "${TWO_HOSTS_PROCESSES:-2}" $TWO_HOSTS_RUN
    exit
fi

make_text 200 >text
OPENBLAS_NUM_THREADS=1
export OPENBLAS_NUM_THREADS
here=$(pwd)

# digest: what the last command printed.
digest() {
    sed -n 's/^digest //p' ../out
}

# ---- the link is cut --------------------------------------------------------

# ranks: the processes of the job on both hosts; neither who started it nor a shell.
ranks() {
    for host in $first $second; do
        for process in $(ip netns pids "$host"); do
            grep -qsx pipetrain "/proc/$process/comm" &&
                ! grep -qsxz -e --restart "/proc/$process/cmdline" &&
                echo "$process"
        done
    done
}

limit=2
PENSTOCK_HEARTBEAT=$limit
export PENSTOCK_HEARTBEAT
# What is left on the first host: Open MPI has four slots there.
case $MPI_NAME in
openmpi) heartbeat='-x PENSTOCK_HEARTBEAT' left='2 processes' ;;
*) heartbeat='' left='1 process' ;;
esac
steps=2000
set -- --data text --layers 4 --heads 2 --width 16 --context 8 --batch 8 --microbatches 4 \
    --warmup 2 --val-fraction 0 --quiet --stages 4 --steps $steps --digest
expect 0 - '' pipetrain "$@"
alone=$(digest)
# shellcheck disable=SC2086 # one word an argument
timeout -k 5 120 ../on $first "$program" --restart 1 -- $start $heartbeat \
    -n 2 "$program" "$@" --log log --checkpoint "$here/cut" \
    --checkpoint-every 20 >../out 2>../err </dev/null &
supervisor=$!
while kill -0 $supervisor 2>/dev/null && ! grep -qs '"step": 100,' log; do
    sleep 0.05
done
ip -n $second link set link0 down
began=$(tenths)
while [ -n "$(ranks)" ] && [ $(($(tenths) - began)) -lt 300 ]; do
    sleep 0.1
done
took=$(($(tenths) - began))
printf '%s: no process %d.%d s after the link was cut\n' "$cli_name" $((took / 10)) \
    $((took % 10))
true_that 'all end in time' [ $took -le $(((limit + 5) * 10)) ]
wait $supervisor && status=0 || status=$?
printf '%s: the end after %d s\n' "$cli_name" $((($(tenths) - began) / 10))
same 'the link is cut: exit status' 0 "$status"
[ "$status" = 0 ] || cat ../out ../err
same 'the digest' "$alone" "$(digest)"
# said PATTERN: on a line of standard error.
said() {
    same "$1" 1 "$(grep -c -e "^pipetrain: $1\$" ../err)"
}
said "process 1 on $second has not been heard of for $limit s"
# Open MPI's launcher waits for its helper on the other host, MPICH's does not.
[ "$MPI_NAME" != openmpi ] ||
    said "warning: .* went on for 10 s after its processes on this host had ended, .*"
said 'restart 1 of 1: .*; it goes on with --resume'
said "$address_b does not answer: $left go.* on, on $address_a"
ip -n $second link set link0 up
unset PENSTOCK_HEARTBEAT

[ "$MPI_NAME" = openmpi ] || {
    skip 'the rest, as MPI_Finalize of MPICH over the TCP of UCX does not always end here'
    finish
}

# ---- the link is what it is said to be --------------------------------------

# rates: Mbit/s of 4 MiB from 0 to 1 and from 1 to 0, as the last command printed them.
rates() {
    awk 'NF == 6 && $1 ~ /^[01]$/ { printf "%s%g", separator, 8 * $6; separator = " " }' \
        ../out
}
# Two processes that must wait for a busy machine's core are slower.
tries=0
while :; do
    expect 0 '~2 processes, by *--latency * --bandwidth *' - \
        launch 2 "$program" --self-test
    printf '%s: 4 MiB each way: %s Mbit/s\n' "$cli_name" "$(rates)"
    tries=$((tries + 1))
    rates | awk -v rate="$rate" '
        { exit !(NF == 2 && $1 >= 0.9 * rate && $1 <= 1.05 * rate &&
                 $2 >= 0.9 * rate && $2 <= 1.05 * rate) }' && break
    [ $tries -lt 5 ] || {
        fail 'the link' "0.9 to 1.05 of $rate Mbit/s both ways" "$(rates)"
        break
    }
done

# ---- training ---------------------------------------------------------------

# shellcheck disable=SC2086 # one word an argument
{
    expect 0 - '' pipetrain $cli_tiny --stages 4 --digest
    alone=$(digest)
    for schedule in 1f1b zb-h1; do
        expect 0 - - launch 2 "$program" $cli_tiny --stages 4 --digest \
            --schedule $schedule
        same "$schedule: the digest of two hosts" "$alone" "$(digest)"
    done
    expect 0 "~process 0 on $first, rank 0: *process 1 on $second, rank 3: *" - \
        launch 3 "$program" $cli_tiny --stages 4 --workers 1,1,2 --digest \
        --report-binding
    same 'the digest of three processes' "$alone" "$(digest)"
}

# Checkpoints: of two hosts, for one process; and back.
# shellcheck disable=SC2086 # one word an argument
{
    expect 0 - - launch 2 "$program" $cli_tiny --stages 2 --stop-at 10 \
        --checkpoint "$here/run"
    expect 0 - - pipetrain $cli_tiny --stages 3 --stop-at 15 --resume \
        --checkpoint "$here/run"
    expect 0 - - launch 2 "$program" $cli_tiny --stages 4 --digest --resume \
        --checkpoint "$here/run"
    same 'two hosts, then one process, then two hosts' "$alone" "$(digest)"
}

finish
