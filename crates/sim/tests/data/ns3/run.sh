#!/bin/sh
# Runs ns-3 on the flow lists of this folder and rewrites the `*-result.csv` and `*-summary.txt` files.
# Usage: run.sh PATH_OF_THE_ns3_PEER   (built by `make` in benches/peers/ns3)
set -eu
peer=$(realpath "$1")
cd "$(dirname "$0")"

common="--scenario file --rate 10Gbps --delay 1us --iw 10 --max-window 200 --mss 1460 --min-rto 5ms --preconnect 1"

one() { # NAME FLOWS OPTIONS...
    name=$1 flows=$2
    shift 2
    {
        echo "options: $common --flows $flows $*"
        # Speed and memory belong to the machine, not to the scenario.
        "$peer" $common --flows "$flows" "$@" --count 1 --out "$name-result.csv" |
            sed -e 's/ cpu_s=.*//' -e 's/ hops_per_cpu_s=.*//'
    } >"$name-summary.txt"
}

one dumbbell-no-loss dumbbell-flows.csv --topology dumbbell:pairs=4 --queue 5000
one dumbbell-many dumbbell-many-flows.csv --topology dumbbell:pairs=4 --queue 100 --host-rate 25Gbps
one fat-tree fat-tree-flows.csv --topology fat-tree:k=4 --queue 100
one fat-tree-no-loss fat-tree-flows.csv --topology fat-tree:k=4 --queue 5000
one fat-tree-dctcp fat-tree-flows.csv --topology fat-tree:k=4 --queue 100 --transport dctcp --mark 20
one fat-tree-dctcp-no-loss fat-tree-flows.csv --topology fat-tree:k=4 --queue 5000 --transport dctcp --mark 20
