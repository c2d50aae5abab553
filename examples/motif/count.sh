#!/bin/sh
# One task: prints every six-letter word of one sequence, each once. The line of the input file is in
# HQ_ENTRY: a name and a sequence.
set -eu
printf '%s\n' "$HQ_ENTRY" | awk '
    {
        for (at = 1; at + 5 <= length($2); at++) seen[substr($2, at, 6)] = 1
        for (word in seen) print word
    }'
