#!/usr/bin/env bash
# Aligns reads of the lambda phage chunk by chunk, merges the results and compares them with those of
# a single run.   run.sh [CHUNKS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${BOWTIE2_EXAMPLES:-/usr/share/doc/bowtie2/examples}
chunks=${1:-20}
if [ ! -e "$data/reads/reads_1.fq.gz" ]; then
  echo "error: no reads in $data; install bowtie2-examples or set BOWTIE2_EXAMPLES" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The index of the genome, from the genome itself.
gzip -dc "$data/reference/lambda_virus.fa.gz" > lambda_virus.fa
bowtie2-build --quiet lambda_virus.fa lambda_virus
export BOWTIE2_INDEX=$work/lambda_virus

"$here/split_reads.py" "$data/reads/reads_1.fq.gz" "$data/reads/reads_2.fq.gz" "$chunks" chunks
hq run --name align --each-line chunks/chunks.txt --env BOWTIE2_INDEX="$BOWTIE2_INDEX" \
  --stdout 'aligned/%{TASK_ID}.sam' --stderr 'aligned/%{TASK_ID}.err' -- "$here/align.sh"

gzip -dc "$data/reads/reads_1.fq.gz" > reads_1.fq
gzip -dc "$data/reads/reads_2.fq.gz" > reads_2.fq
bowtie2 --quiet -x "$BOWTIE2_INDEX" -1 reads_1.fq -2 reads_2.fq > whole.sam

mapfile -t aligned < <(ls aligned/*.sam | sort --version-sort)
"$here/check_merge.py" whole.sam merged.sam "${aligned[@]}"
