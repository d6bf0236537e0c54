"""The columns of the students' SDSS query, and synthetic rows of them with the correlations that matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BANDS = "ugriz"
FEATURES = (
    *("camcol", "field", "rowv", "colv"),
    *BANDS,
    *(f"{kind}_{band}" for kind in ("psfMag", "petroRad", "expRad", "q") for band in BANDS),
    *("ra", "dec", "b", "l"),
)
RANGES = {
    **{f"{kind}_{band}": (-100.0, 100.0) for kind in ("psfMag", "q") for band in BANDS},
    **dict.fromkeys((*BANDS, "redshift"), (-100.0, 100.0)),
    **{f"{kind}_{band}": (0.0, 1e6) for kind in ("petroRad", "expRad") for band in BANDS},
    **dict.fromkeys(("ra", "l", "alpha"), (-0.001, 360.001)),
    **dict.fromkeys(("dec", "b", "delta"), (-360.0, 360.0)),
    **dict.fromkeys(("camcol", "cam_col"), (1.0, 6.0)),
    "field": (0.0, 1e6),
}
"""Values that a column can have, the least and the largest; of another only that it is no -9999, as below."""
ABSENT = -9000.0
"""SDSS writes -9999 or -1000 for what was not measured: no column has values as small as this."""
IDENTITIES = {
    *("obj_id", "run_id", "rerun_id", "spec_obj_id", "field_id", "fiber_id", "plate", "mjd"),
    *("objid", "run", "rerun", "specobjid", "fiberid", "field"),
}
"""Columns of Kaggle's SDSS17, and of its SDSS14 and 16, that number a row or its observation: no features."""
OF_KAGGLE = ({"alpha", "delta"}, {"ra", "dec"}), {*BANDS, "redshift", "class"}
"""The place of a star in the one and the others; and more of their columns, with the label, GALAXY, STAR or QSO."""
LABEL = "type"
LABELS = {"galaxy": 1, "star": 0, "3": 1, "6": 0}
"""SDSS writes a word or its number."""

_COLOURS = np.array([1.9, 0.7, 0.0, -0.3, -0.5])


def made_up(numbers: np.random.Generator, count: int) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Features (count, 33) in the order of FEATURES, and labels (count,): 1 for a galaxy, else 0.

    A linear model tells 93 to 95 % of them apart.

    Galaxies are larger, redder and fainter in a star's profile; its place on the sky says a little, as in SDSS.
    """
    galaxy = numbers.random(count) < 0.5
    y = galaxy[:, None].astype(float)
    bright = numbers.normal(19.6, 1.1, (count, 1)) - 0.45 * y
    magnitudes = bright + _COLOURS * (1 + 0.35 * y) + numbers.normal(0, (0.9, 0.35, 0.2, 0.7, 0.3), (count, 5))
    profile = magnitudes + 0.25 * y + numbers.normal(0, 0.15, (count, 5))
    size = np.abs(1.35 + 1.95 * y + numbers.normal(0, 0.62, (count, 1)))
    petrosian = np.abs(size + numbers.normal(0, (2.6, 0.75, 0.7, 0.75, 1.0), (count, 5)))
    exponential = np.abs(0.6 * size + numbers.normal(0, (0.6, 0.5, 0.45, 0.5, 0.55), (count, 5)))
    features = np.column_stack(
        [
            numbers.integers(1, 7, count),
            numbers.integers(11, 800, count),
            numbers.normal(0, 0.3, (count, 2)),
            magnitudes,
            profile,
            petrosian,
            exponential,
            numbers.normal(0, 0.25, (count, 5)),
            np.mod(numbers.normal(150, 70, count) + 35 * galaxy, 360),
            np.clip(numbers.normal(22, 18, count) + 9 * galaxy, -20, 80),
            numbers.normal(45, 20, count),
            np.mod(numbers.normal(190, 80, count) - 40 * galaxy, 360),
        ]
    )
    return features, galaxy.astype(np.uint8)
