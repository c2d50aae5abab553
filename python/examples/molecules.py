"""Screens molecules with RDKit: which of them are most like a drug that is known, and have good properties themselves.

Each molecule is a call. The serial program gives the same: the example compares the two.
"""

from __future__ import annotations

import headquarters as hq

REFERENCE = "CC(=O)Oc1ccccc1C(=O)O"
SCAFFOLDS = ["c1ccccc1{}", "c1ccc(O)c({})c1", "C1CCCCC1{}", "c1ccnc({})c1", "O=C(O)c1ccccc1{}", "c1cc({})sc1"]
GROUPS = ["C", "CC", "O", "OC", "N", "C(=O)O", "C(=O)N", "Cl", "F", "C#N", "OC(C)=O", "NC(C)=O", "S(N)(=O)=O", "CCO"]
SMILES = [scaffold.format(group) for scaffold in SCAFFOLDS for group in GROUPS]


def score(smiles: str, reference: str) -> tuple[float, float] | None:
    """Likeness to the reference and drug-likeness of a molecule; None for what is not a molecule."""
    from rdkit import Chem, DataStructs  # type: ignore[import-not-found, unused-ignore]
    from rdkit.Chem import QED, rdFingerprintGenerator  # type: ignore[import-not-found, unused-ignore]

    molecule, known = Chem.MolFromSmiles(smiles), Chem.MolFromSmiles(reference)
    if molecule is None:
        return None
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(one) for one in (molecule, known)]
    return round(DataStructs.TanimotoSimilarity(*prints), 6), round(QED.qed(molecule), 6)  # type: ignore[no-untyped-call, unused-ignore]


def best(scores: list[tuple[float, float] | None], count: int) -> list[int]:
    """The places of the best ones."""
    ranked = [(sum(pair), -at) for at, pair in enumerate(scores) if pair is not None]
    return [-at for _, at in sorted(ranked, reverse=True)[:count]]


def main() -> None:
    with hq.Executor(2, name="molecules") as executor:
        futures = [executor.submit(score, smiles, REFERENCE) for smiles in SMILES]
        scores = hq.gather(futures)
    assert scores == [score(smiles, REFERENCE) for smiles in SMILES], "the serial program says something else"
    for at in best(scores, 3):
        print(SMILES[at], scores[at])


if __name__ == "__main__":
    main()
