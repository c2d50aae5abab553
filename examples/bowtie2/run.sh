#!/usr/bin/env bash
# Aligns reads of the lambda phage with Bowtie 2, a task a chunk of reads, and compares the merged alignment with
# that of a single run. Needs Debian's `bowtie2` and `bowtie2-examples`. Usage: run.sh HQ-BINARY
set -euo pipefail
hq=$1
data=/usr/share/doc/bowtie2/examples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
read_file() { if [ -e "$1" ]; then cat "$1"; else zcat "$1.gz"; fi; }
read_file $data/reference/lambda_virus.fa > lambda.fa
read_file $data/reads/reads_1.fq > reads.fq
bowtie2-build --quiet lambda.fa lambda
# 500 reads a chunk, four lines a read.
split --lines=2000 --numeric-suffixes --suffix-length=3 --additional-suffix=.fq reads.fq chunk-
ls chunk-*.fq > chunks
"$hq" run --each-line chunks --cpus 1 --name align --env INDEX="$work/lambda" -- \
    sh -c 'bowtie2 --quiet --threads 1 -x "$INDEX" -U "$HQ_ENTRY"'
# Reads are aligned one by one, so the parts in their order are the whole; the header is the same in all.
for task in $(seq 0 $(($(wc -l < chunks) - 1))); do grep -v '^@' "job-1/$task.stdout"; done > merged.sam
bowtie2 --quiet --threads 1 -x lambda -U reads.fq | grep -v '^@' > single.sam
cmp merged.sam single.sam
echo "$(wc -l < chunks) chunks, $(wc -l < merged.sam) reads: the merged alignment is that of a single run"
