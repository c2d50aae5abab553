#!/usr/bin/env bash
# Finds the six-letter word that too many DNA sequences share: one task per sequence, on the cluster
# that `hq run` embeds. Checks that counting in tasks gives what counting in one go gives.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

rank() { sort | uniq -c | sort -k1,1nr -k2 | awk 'NR <= 5'; }

echo "\$ hq run --each-line sequences.txt --stdout 'words/%{TASK_ID}' -- sh count.sh"
hq run --each-line "$here/sequences.txt" --stdout 'words/%{TASK_ID}' --stderr none -- sh "$here/count.sh"

cat words/* | rank > found.txt
while read -r line; do HQ_ENTRY=$line sh "$here/count.sh"; done < "$here/sequences.txt" | rank > expected.txt

echo
echo "The words that most of the $(wc -l < "$here/sequences.txt") sequences share:"
awk '{ printf "  %s  in %3d sequences\n", $2, $1 }' found.txt

if ! cmp -s found.txt expected.txt; then
  echo "error: counting in one go gives something else:" >&2
  cat expected.txt >&2
  exit 1
fi
best=$(awk 'NR == 1 { print $2 }' found.txt)
if [ "$best" != TATAAT ]; then
  echo "error: the motif TATAAT was put into the sequences, yet $best was found" >&2
  exit 1
fi
echo "The motif is $best, as it was put in; counting in one go gives the same."
