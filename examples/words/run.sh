#!/usr/bin/env bash
# Counts the words of a text, a task a chapter, on the embedded cluster; the sum must be what one pass gives.
# Usage: run.sh HQ-BINARY, in an empty directory.
set -euo pipefail
hq=$1
here=$(cd "$(dirname "$0")" && pwd)
awk -v RS= '{ file = sprintf("chapter-%02d.txt", NR); print > file; close(file) }' "$here/text.txt"
ls chapter-*.txt > chapters
"$hq" run --each-line chapters --cpus 1 --name words -- sh -c 'tr -cs "[:alpha:]" "\n" < "$HQ_ENTRY" | tr "[:upper:]" "[:lower:]" | grep .'
cat job-1/*.stdout | sort | uniq -c | sort -k1,1nr -k2 > counted
tr -cs "[:alpha:]" "\n" < "$here/text.txt" | tr "[:upper:]" "[:lower:]" | grep . | sort | uniq -c | sort -k1,1nr -k2 > expected
cmp counted expected
echo "the five commonest words of $(wc -l < chapters) chapters:"
head -n 5 counted
