#!/usr/bin/env bash
# Makes a ranking of six drugs by rules, changes what it is made from, and checks what is made anew.   run.sh [CPUS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cpus=${1:-2}
# What the rules call, and the molecules.
export SCREENING=$here/../screening
structure=${RECEPTOR:-/usr/share/pymol/data/tut/1hpv.pdb}
if [ ! -e "$structure" ]; then
  echo "error: no structure at $structure; install pymol-data or set RECEPTOR" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/rules.yaml" "$here/targets.yaml" .

# What it is made from: the structure, and a file for each molecule.
mkdir -p protease/ligands
cp "$structure" protease/1hpv.pdb
molecules=$(sed -n 's/^ *ligands: //p' targets.yaml)
for name in $molecules; do
  awk -v name="$name" '$2 == name' "$SCREENING/ligands.smi" | tee "protease/ligands/$name.smi"
done > ligands.smi

# Makes what is needed in a mode, and demands that this is it: how runs ended, in order of the alphabet.
demand() {
  local mode=$1 expected=$2 ended
  hq make --rerun "$mode" --cpus "$cpus" > made || { cat made >&2; exit 1; }
  ended=$(sed -nE 's,^(completed|unchanged) +protease/,\1 ,p' made | sort | tr '\n' ',')
  if [ "$ended" != "$expected" ]; then
    printf 'error: --rerun %s made "%s" instead of "%s":\n' "$mode" "$ended" "$expected" >&2
    cat made >&2
    exit 1
  fi
  tail -1 made
}
# Demands that so many runs would be needed in a mode, without making anything.
demand_planned() {
  local mode=$1 expected=$2
  hq make --rerun "$mode" --dry-run > planned
  grep -q "^$expected runs, " planned || { cat planned >&2; exit 1; }
  tail -1 planned
}
# The end of each run of a rule that there is for each molecule.
each() { printf "$1.%s\n" $molecules | sort | tr '\n' ','; }
nothing=

echo "at first:"
demand exists "$(each 'completed dock')$(each 'completed embed')completed rank,completed receptor,"
cat protease/ranking.txt
"$SCREENING/check.py" protease/ranking.txt ligands.smi
hq make --question

echo "again, in each mode:"
for mode in exists mtime hash; do demand "$mode" "$nothing"; done

echo "a molecule that is newer than what was made from it, and says the same:"
touch protease/ligands/aspirin.smi
demand exists "$nothing"
demand hash "$nothing"
demand mtime "completed dock.aspirin,completed embed.aspirin,completed rank,"

echo "a molecule that is written from its other end:"
echo 'c1cnccc1C(=O)NN isoniazid C6H7N3O' > protease/ligands/isoniazid.smi
demand exists "$nothing"
demand_planned mtime 3
demand hash "completed dock.isoniazid,completed embed.isoniazid,completed rank,"

echo "a remark in the structure, of which nothing is left in the receptor:"
echo 'REMARK 999 THE INHIBITOR IS TAKEN OUT BEFORE DOCKING' >> protease/1hpv.pdb
demand exists "$nothing"
demand_planned mtime 8
demand hash "completed receptor,$(each 'unchanged dock')unchanged rank,"
demand hash "$nothing"
"$SCREENING/check.py" protease/ranking.txt ligands.smi
