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

head -10 ranking.txt
"$here/check.py" ranking.txt "$here/ligands.smi"
