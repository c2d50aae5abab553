#!/usr/bin/env bash
# Aligns reads of the lambda phage chunk by chunk on three workers that share no directory, merges the results and compares them
# with those of a single run.
#
# usage: run.sh [CHUNKS]    needs hq, bowtie2 and python3; up to 60 chunks
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${BOWTIE2_EXAMPLES:-/usr/share/doc/bowtie2/examples}
chunks=${1:-20}
last=$((chunks - 1))
if [ ! -e "$data/reads/reads_1.fq.gz" ]; then
  echo "error: no reads in $data; install bowtie2-examples or set BOWTIE2_EXAMPLES" >&2
  exit 1
fi
dir=$(mktemp -d)
export HQ_SERVER_DIR=$dir/server
mkdir "$dir/work"

pids=
stop() {
  hq server stop >/dev/null 2>&1 || true
  for pid in $pids; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap stop EXIT

# A worker with a store and temporary files of its own. Where that is allowed, what tasks write into the working directory is
# seen on its node alone, too.
node() {
  mkdir "$dir/$1"
  if unshare --mount true 2>/dev/null; then
    alone='mount -t tmpfs none "$0" && exec "$@"'
    TMPDIR=$dir/$1 unshare --mount sh -c "$alone" "$dir/work" hq worker start --cpus 2 --hostname "$1" >"$dir/$1.log" 2>&1 &
  else
    TMPDIR=$dir/$1 hq worker start --cpus 2 --hostname "$1" >"$dir/$1.log" 2>&1 &
  fi
  pids="$pids $!"
}
hq server start --host localhost >"$dir/server.log" 2>&1 &
pids="$pids $!"
hq server wait --timeout 60s >/dev/null
for name in node1 node2 node3; do node "$name"; done
hq worker wait 3 >/dev/null

# What is here becomes objects: the genome, all reads as a directory, and the programs of this example.
mkdir "$dir/reads"
gzip -dc "$data/reference/lambda_virus.fa.gz" >"$dir/genome.fa"
gzip -dc "$data/reads/reads_1.fq.gz" >"$dir/reads/1.fq"
gzip -dc "$data/reads/reads_2.fq.gz" >"$dir/reads/2.fq"
put() { hq --output-mode quiet object put --name "$1" "$2"; }
genome=$(put genome "$dir/genome.fa")
reads=$(put reads "$dir/reads")
tools=$(put tools "$here")

# Each job takes what those before it leave, and waits for that.
cd "$dir/work"
submit() { hq --output-mode quiet submit "$@"; }
build='mkdir index && bowtie2-build --quiet "$HQ_BROADCAST_DIR/genome" index/lambda'
index=$(submit --name index --broadcast "$genome" --output-object index=index -- sh -c "$build")
split=$(submit --name split --array "0-$last" --broadcast "$reads" --broadcast "$tools" \
  --output-object 'chunk=chunk-%{TASK_ID}' \
  -- python3 '%{BROADCAST_DIR}/tools/split_reads.py' '%{BROADCAST_DIR}/reads' '%{TASK_ID}' "$chunks" 'chunk-%{TASK_ID}')
align=$(submit --name align --array "0-$last" --broadcast "$index@0:index" --broadcast "$tools" \
  --input-object "chunk=$split@%{TASK_ID}:chunk->reads-%{TASK_ID}" --stdout '%{TASK_ID}.sam' \
  --output-object 'sam=%{TASK_ID}.sam' -- sh '%{BROADCAST_DIR}/tools/align.sh' 'reads-%{TASK_ID}')
whole=$(submit --name whole --broadcast "$index@0:index" --broadcast "$reads" --broadcast "$tools" --stdout whole.sam \
  --output-object sam=whole.sam -- sh '%{BROADCAST_DIR}/tools/align.sh' '%{BROADCAST_DIR}/reads')

takes=(--input-object "whole=$whole@0:sam->whole.sam")
parts=()
for chunk in $(seq 0 "$last"); do
  takes+=(--input-object "part-$chunk=$align@$chunk:sam->parts/$chunk.sam")
  parts+=("parts/$chunk.sam")
done
merge=$(submit --name merge --broadcast "$tools" "${takes[@]}" --stdout report --output-object merged=merged.sam \
  --output-object report=report -- python3 '%{BROADCAST_DIR}/tools/check_merge.py' whole.sam merged.sam "${parts[@]}")
if ! hq --output-mode quiet job wait "$merge" >/dev/null; then
  hq job list --all >&2
  hq job info "$index" "$split" "$align" "$whole" "$merge" >&2
  exit 1
fi
hq object get "$merge@0:merged" -o "$dir/merged.sam" >/dev/null
test -s "$dir/merged.sam"
hq object get "$merge@0:report"
