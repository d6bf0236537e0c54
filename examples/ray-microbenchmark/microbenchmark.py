"""`ray microbenchmark` as it is, on the cluster of the run; its figures go into the run's record, too."""

import argparse
import json
import os
import time

UNEQUAL = 1e12
"""Figures of two runs are never equal: they may differ by so much."""


def tell(event, **fields):
    """A line that Regatta reads."""
    print("@regatta " + json.dumps({"event": event, "rank": -1, "t": time.time(), **fields}), flush=True)


def main():
    """Measure, and tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", default="")
    os.environ["TESTS_TO_RUN"] = parser.parse_args().tests  # Ray reads it while it is imported
    from ray._private import ray_perf

    measured = [None]  # Ray adds to this list; it would replace an empty one
    began = time.perf_counter()
    try:
        ray_perf.main(measured)
    except ValueError as error:
        if "must not be provided" not in str(error):
            raise
        tell("warning", message=f"placement groups and Ray's client were not measured: {error}")
    tell("phase", name="compute", seconds=time.perf_counter() - began)
    figures = {name: {"per second": float(mean), "deviation": float(sd)} for name, mean, sd in filter(None, measured)}
    tolerance = {f"figures.{name}.{what}": UNEQUAL for name, figure in figures.items() for what in figure}
    show = [f"{name}: {one['per second']:,.1f} a second, +- {one['deviation']:,.1f}" for name, one in figures.items()]
    tell("result", answer={"figures": figures}, tolerance=tolerance, show=show)


if __name__ == "__main__":
    main()
