#!/usr/bin/python3
"""Gives a molecule its third dimension: embed.py NAME SMILES FORMULA writes NAME.pdbqt."""

import sys

from openbabel import pybel

name, smiles, formula = sys.argv[1:]
molecule = pybel.readstring("smi", smiles)
if molecule.formula != formula:
    sys.exit(f"{name} should be {formula}, and {smiles} is {molecule.formula}")
# As it is charged in blood.
molecule.OBMol.AddHydrogens(False, True, 7.4)
molecule.make3D(forcefield="mmff94", steps=50)
molecule.write("pdbqt", f"{name}.pdbqt", overwrite=True)
