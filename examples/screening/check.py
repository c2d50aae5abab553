#!/usr/bin/python3
"""Checks a ranking against the list of molecules: check.py ranking.txt ligands.smi"""

import re
import sys

MADE_FOR_IT = ("amprenavir", "darunavir", "indinavir", "nelfinavir")


def heavy_atoms(formula):
    return sum(int(count or 1) for element, count in re.findall(r"([A-Z][a-z]?)(\d*)", formula) if element != "H")


with open(sys.argv[1]) as lines:
    energy = {name: float(kcal) for kcal, name in map(str.split, lines)}
with open(sys.argv[2]) as lines:
    size = {name: heavy_atoms(formula) for _, name, formula in map(str.split, lines)}

if sorted(energy) != sorted(size):
    sys.exit("the ranking does not hold each molecule once")
if list(energy.values()) != sorted(energy.values()):
    sys.exit("the ranking is not in order")
# Single energies of a search as short as this one differ from run to run, and now and then one finds no place at all; but
# whatever has more atoms finds more to bind to, which shows in the best of several.
by_size = sorted(energy, key=size.get)
some = max(3, len(by_size) // 4)
small, large = (min(energy[name] for name in names) for names in (by_size[:some], by_size[-some:]))
if large > small - 1:
    sys.exit(f"the best of the {some} largest binds with {large:.1f} kcal/mol, the best of the {some} smallest with {small:.1f}")
ranks = ", ".join(f"{name} {list(energy).index(name) + 1}" for name in MADE_FOR_IT if name in energy)
print(f"places of those that were made for this protein: {ranks}")
print(f"{len(energy)} molecules docked; the best large one binds with {large:.1f} kcal/mol, the best small one with {small:.1f}")
