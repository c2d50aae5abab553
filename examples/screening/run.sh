#!/usr/bin/env bash
# Screens 40 drugs for those that bind to the protease of HIV, and checks what comes out.   run.sh [CPUS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cpus=${1:-2}
export RECEPTOR=${RECEPTOR:-/usr/share/pymol/data/tut/1hpv.pdb}
if [ ! -e "$RECEPTOR" ]; then
  echo "error: no structure at $RECEPTOR; install pymol-data or set RECEPTOR" >&2
  exit 1
fi
work=$(mktemp -d)
export HQ_SERVER_DIR=$work/server
trap 'hq server stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
cd "$work"

"$here/make_jobs.py" "$here" "$here/ligands.smi" > screening.toml
hq server start --detach >/dev/null
hq worker start --cpus "$cpus" >/dev/null 2>&1 &
hq worker wait 1
job=$(hq --output-mode quiet job submit-file screening.toml)
if ! hq job wait "$job"; then
  hq task list "$job" --task-status failed,aborted >&2
  exit 1
fi

# The check: all were docked, and drugs that were made for this protein are at the top of the list.
test "$(wc -l < ranking.txt)" -eq "$(wc -l < "$here/ligands.smi")"
head -10 ranking.txt
made_for_it=$(head -10 ranking.txt | grep -cE ' (amprenavir|darunavir|indinavir|nelfinavir)$')
if [ "$made_for_it" -lt 3 ]; then
  echo "error: of the four inhibitors of this protein, $made_for_it are among the best ten" >&2
  exit 1
fi
echo "$(wc -l < ranking.txt) molecules docked; $made_for_it of the 4 made for this protein are among the best 10"
