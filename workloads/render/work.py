"""The items: frames, by number. Each has its own seed, so that the film does not depend on the spread."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.common.events import BadInput
from workloads.common.items.work import Work
from workloads.common.pictures import Film, named

TOLERANCE: dict[str, float] = {}
"""Equal processors render bit-identical frames; others may differ (docs/reference/workloads/films.md)."""
GIF, MP4 = Path("film.gif"), Path("film.mp4")
FRAMES_A_SECOND = 10
SEEDS_A_FRAME = 1_000_003
SWING, DISTANCE = 0.35, 3.9
"""The way of the eye to each side (in lengths of the box's half edge), and how far it is from the middle."""


@dataclass(frozen=True)
class Options:
    """The parameters of a run: so many `frames`; for the others see the card."""

    frames: int
    width: int
    height: int
    samples: int
    seed: int
    threads: int


def frame(options: Options, number: int) -> bytes:
    """A frame, as rows of red, green and blue."""
    mi, scene = _scene(options.threads)
    angle = 2 * math.pi * number / options.frames
    eye = [SWING * math.sin(angle), SWING * math.cos(angle), DISTANCE]
    sensor = mi.load_dict(
        {
            "type": "perspective",
            "fov": 39.3077,
            "fov_axis": "smaller",
            "near_clip": 0.001,
            "far_clip": 100.0,
            "to_world": mi.ScalarTransform4f().look_at(origin=eye, target=[0, 0, 0], up=[0, 1, 0]),
            "sampler": {"type": "independent"},
            "film": {
                "type": "hdrfilm",
                "width": options.width,
                "height": options.height,
                "rfilter": {"type": "box"},
                "pixel_format": "rgb",
                "component_format": "float32",
            },
        }
    )
    seed = (options.seed * SEEDS_A_FRAME + number) % 2**32
    image = mi.Bitmap(mi.render(scene, sensor=sensor, spp=options.samples, seed=seed))
    made = image.convert(mi.Bitmap.PixelFormat.RGB, mi.Struct.Type.UInt8, srgb_gamma=True)
    import numpy as np

    return np.asarray(made).tobytes()


def work(options: Options) -> Work:
    """The frames. Raises :class:`BadInput` for sizes that MP4 does not know."""
    if options.width % 2 or options.height % 2:
        raise BadInput(f"a frame of {options.width} x {options.height}: width and height must be even, for MP4")
    return Work(functools.partial(frame, options), range(options.frames))


def combine(options: Options, results: Sequence[bytes]) -> tuple[dict[str, Any], list[str]]:
    """Write the film; the answer is a hash of all frames."""
    film = Film(options.width, options.height, results)
    files = [film.gif(GIF, 1000 // FRAMES_A_SECOND), film.mp4(MP4, FRAMES_A_SECOND)]
    answer = {"frames": options.frames, "digest": film.digest, "files": [*map(str, files)]}
    said = f"film: {options.frames:,} frames of {options.width} x {options.height}, {options.samples} paths a pixel"
    return answer, [said, f"{named(files)} of the run's working directory"]


@functools.cache
def _scene(threads: int) -> tuple[Any, Any]:
    """Mitsuba, and the scene: loaded once in each process. Raises :class:`BadInput` where the host lacks a library."""
    try:
        import drjit
        import mitsuba
    except (ImportError, NameError) as error:  # drjit itself fails where it wants to say what failed
        why = error.__context__ or error
        raise BadInput(
            f"Mitsuba cannot be loaded here: {why}; 'regatta provision' brings the libraries of hosts"
        ) from None

    mitsuba.set_variant("scalar_rgb")
    if threads:
        drjit.set_thread_count(threads)
    box = mitsuba.cornell_box()
    del box["sensor"]
    return mitsuba, mitsuba.load_dict(box)
