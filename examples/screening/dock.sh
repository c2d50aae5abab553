#!/usr/bin/env bash
# Docks one molecule into the receptor: dock.sh NAME [FILE]. It is in FILE, else in NAME.pdbqt.
# Uses the cores that it was given.
set -euo pipefail
cores=$(tr ',' '\n' <<< "$HQ_CPUS" | wc -l)
# The box is around the active site, where the crystal has its inhibitor. Few evaluations: the example is to be short.
vina --receptor receptor.pdbqt --ligand "${2:-$1.pdbqt}" --out "docked-$1.pdbqt" \
  --center_x 9.9 --center_y 16.2 --center_z 8.8 --size_x 20 --size_y 20 --size_z 20 --spacing 0.5 \
  --exhaustiveness 2 --max_evals 10000 --num_modes 1 --seed 7 --cpu "$cores"
