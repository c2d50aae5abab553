"""Fits a model of scikit-learn for each set of parameters, and reports the best one.

Each fit is a call; the last call gets all scores as arguments. The serial program gives the same.
"""

from __future__ import annotations

import itertools

import headquarters as hq

GRID = list(itertools.product([0.1, 1.0, 10.0], [0.001, 0.01, 0.1]))


def fit(c: float, gamma: float) -> float:
    """The mean accuracy of a support vector machine on the digits, in three folds."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from sklearn.model_selection import cross_val_score  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from sklearn.svm import SVC  # type: ignore[import-untyped, import-not-found, unused-ignore]

    images, digits = load_digits(return_X_y=True)
    model = SVC(C=c, gamma=gamma)  # pyright: ignore[reportArgumentType]
    scores = cross_val_score(model, images[:600], digits[:600], cv=3)
    return round(float(scores.mean()), 6)


def best(scores: list[float]) -> tuple[float, tuple[float, float]]:
    """The best score and its parameters."""
    score = max(scores)
    return score, GRID[scores.index(score)]


def main() -> None:
    with hq.Executor(2, name="grid search") as executor:
        fits = [executor.submit(fit, *point) for point in GRID]
        found = executor.submit(best, fits).result()  # type: ignore[arg-type]
    assert found == best([fit(*point) for point in GRID]), "the serial program says something else"
    print("accuracy %.3f with C=%g gamma=%g" % (found[0], *found[1]))


if __name__ == "__main__":
    main()
