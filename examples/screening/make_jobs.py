#!/usr/bin/python3
"""Writes the workflow as a job file: make_jobs.py HERE LIGANDS > screening.toml"""

import json
import sys

here, ligands = sys.argv[1:]
with open(ligands) as lines:
    molecules = [line.split() for line in lines if line.strip()]

TASK = """
[[task]]
key = {key}
command = {command}
deps = {deps}
outputs = {outputs}
stdout = "none"
stderr = {stderr}
"""


def task(key, command, deps, outputs, requests=("1",)):
    text = TASK.format(
        key=json.dumps(key),
        command=json.dumps(command),
        deps=json.dumps(deps),
        outputs=json.dumps(outputs),
        stderr=json.dumps(f"{key}.err"),
    )
    for cpus in requests:
        text += f'[[task.request]]\nresources = {{ cpus = "{cpus}" }}\n'
    print(text)


print('name = "screening"')
# The protein without water and without the inhibitor of the crystal, with hydrogens.
prepare = 'grep "^ATOM" "$RECEPTOR" > protein.pdb && obabel protein.pdb -xr -p 7.4 -O receptor.pdbqt'
task("receptor", ["sh", "-c", prepare], [], ["receptor.pdbqt"])
for smiles, name, formula in molecules:
    task(f"embed-{name}", [f"{here}/embed.py", name, smiles, formula], [], [f"{name}.pdbqt"])
    # Two cores where they are free, else one.
    deps = ["receptor", f"embed-{name}"]
    task(f"dock-{name}", [f"{here}/dock.sh", name], deps, [f"docked-{name}.pdbqt"], ("2", "1"))
names = [name for _, name, _ in molecules]
task("rank", [f"{here}/rank.py", *names], [f"dock-{name}" for name in names], ["ranking.txt"])
