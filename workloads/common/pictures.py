"""Pictures that a run makes, as files of its working directory: GIF by Pillow, MP4 by imageio-ffmpeg."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Film:
    """Frames of the same `width` and `height`, each as rows of bytes: red, green, blue."""

    width: int
    height: int
    frames: Sequence[bytes]

    @property
    def digest(self) -> str:
        """SHA-256 of all frames, one after the other."""
        return hashlib.sha256(b"".join(self.frames)).hexdigest()

    def gif(self, path: Path, milliseconds: int) -> Path:
        """Write them as a GIF that begins again when it has ended; each is shown so long."""
        from PIL import Image

        images = [Image.frombytes("RGB", (self.width, self.height), frame) for frame in self.frames]
        images[0].save(path, save_all=True, append_images=images[1:], duration=milliseconds, loop=0, disposal=1)
        return path

    def mp4(self, path: Path, frames_a_second: int) -> Path:
        """Write them as H.264 in MP4. Width and height must be even."""
        import imageio_ffmpeg

        size: Any = (self.width, self.height)
        writer = imageio_ffmpeg.write_frames(
            str(path), size, fps=frames_a_second, macro_block_size=2, ffmpeg_log_level="error"
        )
        writer.send(None)
        for frame in self.frames:
            writer.send(frame)
        writer.close()
        return path


def named(files: Sequence[Path]) -> str:
    """Return what was written, for a person: `film.gif (1,234 bytes)`."""
    return ", ".join(f"{path} ({path.stat().st_size:,} bytes)" for path in files)
