#!/bin/sh
# One task: aligns the pairs of reads of one chunk, whose name is in HQ_ENTRY; prints SAM.
set -eu
exec bowtie2 --quiet -x "$BOWTIE2_INDEX" -1 "$HQ_ENTRY.1.fq" -2 "$HQ_ENTRY.2.fq"
