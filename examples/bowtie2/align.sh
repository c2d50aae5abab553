#!/bin/sh
# One task: aligns the pairs of reads in a directory; prints SAM. The index is broadcast.   align.sh DIRECTORY
set -eu
exec bowtie2 --quiet -x "$HQ_BROADCAST_DIR/index/lambda" -1 "$1/1.fq" -2 "$1/2.fq"
