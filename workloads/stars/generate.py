"""``python -m workloads.stars.generate --size ROWS > stars.csv``: made-up stars and galaxies in the columns of SDSS.

Two clouds in the five magnitudes u, g, r, i, z and the redshift, which overlap: galaxies are redder and farther away.
"""

from __future__ import annotations

import numpy as np

from workloads.common import generate

BLOCK_ROWS = 20_000
HEAD = b"objid,ra,dec,u,g,r,i,z,run,rerun,camcol,field,specobjid,class,redshift,plate,mjd,fiberid\n"
FIRST_OBJECT = 1237645943978393600
_ROW = "%d,%.6f,%.6f,%.5f,%.5f,%.5f,%.5f,%.5f,%d,301,%d,%d,%d,%s,%.6f,%d,%d,%d\n"
_STAR, _GALAXY = (18.4, 17.1, 16.6, 16.4, 16.3), (18.9, 17.5, 16.8, 16.4, 16.1)


def block(numbers: np.random.Generator, first: int, count: int) -> bytes:
    """`count` rows."""
    galaxy = numbers.random(count) < 0.5
    magnitudes = np.where(galaxy[:, None], _GALAXY, _STAR) + numbers.normal(0, 0.8, (count, 1))
    magnitudes += numbers.normal(0, 0.25, (count, 5))
    redshift = np.where(galaxy, numbers.gamma(3.0, 0.03, count), numbers.normal(0, 3e-4, count))
    columns = [
        np.arange(FIRST_OBJECT + first, FIRST_OBJECT + first + count),
        numbers.uniform(0, 360, count),
        numbers.uniform(-20, 70, count),
        *magnitudes.T,
        numbers.integers(300, 8000, count),
        numbers.integers(1, 7, count),
        numbers.integers(11, 800, count),
        numbers.integers(10**17, 10**18, count),
        np.where(galaxy, "GALAXY", "STAR"),
        redshift,
        numbers.integers(266, 8500, count),
        numbers.integers(51600, 57500, count),
        numbers.integers(1, 1001, count),
    ]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "".join([_ROW % row for row in rows]).encode()


def main() -> None:
    """Run with the arguments of the process."""
    given = generate.parser("workloads.stars.generate", "Made-up stars and galaxies.", "rows").parse_args()
    generate.write(block, given, BLOCK_ROWS, HEAD)


if __name__ == "__main__":
    main()
