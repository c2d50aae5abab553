#!/bin/sh
# An MPI program over three workers, with every MPI that is found here; each run is checked.
#
# usage: run.sh    needs HQ (the path of hq, else `hq`), and mpicc of Open MPI or MPICH
set -eu
here=$(cd "$(dirname "$0")" && pwd)
hq=${HQ:-hq}
dir=$(mktemp -d)
cd "$dir"
export HQ_SERVER_DIR="$dir/server"
# Three workers stand for three nodes: what MPI takes for one node's shared memory and root's rights is switched off.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,tcp
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

pids=
stop() {
    "$hq" server stop >/dev/null 2>&1 || true
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap stop EXIT
"$hq" server start --host localhost >server.log 2>&1 &
pids="$pids $!"
"$hq" server wait --timeout 60s
for node in 1 2 3; do
    mkdir "$dir/node$node"
    TMPDIR="$dir/node$node" "$hq" worker start --cpus 2 --hostname "node$node" --group example >"worker$node.log" 2>&1 &
    pids="$pids $!"
done
"$hq" worker wait 3

tried=0
try() {
    launcher=$1 compiler=$2 mpirun=$3
    command -v "$compiler" >/dev/null && command -v "$mpirun" >/dev/null || return 0
    mkdir -p "$launcher/bin"
    # Under the names that launchers have where one MPI alone is installed.
    for name in mpirun mpiexec; do
        printf '#!/bin/sh\nexec %s "$@"\n' "$mpirun" >"$launcher/bin/$name"
        chmod +x "$launcher/bin/$name"
    done
    "$compiler" -O1 -o "$launcher/places" "$here/places.c"
    "$hq" submit --wait --nodes 3 --ranks-per-node 2 --launcher "$launcher" --stdout "$dir/$launcher.out" \
        --stderr "$dir/$launcher.err" --env PATH="$dir/$launcher/bin:$PATH" \
        --env OMPI_ALLOW_RUN_AS_ROOT=1 --env OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 --env OMPI_MCA_btl=self,tcp \
        -- '%{MPIRUN}' "$dir/$launcher/places" || { cat "$dir/$launcher.err"; return 1; }
    ranks=$(grep -c '^rank . of 6 on ' "$launcher.out")
    workers=$(sed -n 's/^rank .*, worker //p' "$launcher.out" | sort | uniq -c | awk '{print $1}' | tr '\n' ' ')
    sum=$(sed -n 's/^sum //p' "$launcher.out")
    if [ "$ranks" != 6 ] || [ "$workers" != "2 2 2 " ] || [ "$sum" != 21 ]; then
        echo "$launcher: $ranks ranks of 6, on workers: $workers, sum $sum instead of 21" >&2
        cat "$launcher.out" "$launcher.err" >&2
        exit 1
    fi
    sort -k2 -n "$launcher.out" | sed "s/, worker .*//; s/^/$launcher: /"
    tried=$((tried + 1))
}

try openmpi4 mpicc.openmpi mpirun.openmpi
try mpich mpicc.mpich mpiexec.mpich
[ "$tried" -gt 0 ] || { echo "neither mpicc.openmpi nor mpicc.mpich is installed" >&2; exit 1; }
echo "6 ranks on 3 workers agreed, with $tried MPI libraries"
