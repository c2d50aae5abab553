#!/usr/bin/python3
"""Ranks docked molecules by their binding energies: rank.py NAME... writes ranking.txt, best first."""

import sys


def energy(name):
    with open(f"docked-{name}.pdbqt") as poses:
        for line in poses:
            if line.startswith("REMARK VINA RESULT:"):
                return float(line.split()[3])
    sys.exit(f"docked-{name}.pdbqt holds no pose")


ranking = sorted((energy(name), name) for name in sys.argv[1:])
with open("ranking.txt", "w") as out:
    for kcal, name in ranking:
        print(f"{kcal:8.3f} {name}", file=out)
