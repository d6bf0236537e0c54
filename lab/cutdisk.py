"""Disks whose power can be cut: all of them at one instant, and what was not on them by then is lost.

`off` of a lab ends a host's processes, but what they wrote is still in this machine's memory. Here each file system
(ext4) is on a loop device that writes past that memory, in a file of a pool (btrfs) that can copy it in milliseconds:
such a copy is what a disk has at that instant. `come_back` mounts the copies in place of the disks.
"""

import fcntl
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from .system import run, unmount_below

FICLONE = 0x40049409
NEEDS = {"mkfs.btrfs": "btrfs-progs", "mkfs.ext4": "e2fsprogs", "losetup": "mount"}
_SIZE = "24G"


def problems() -> list[str]:
    """Programs and file systems that this machine lacks, one line each; empty where it has all."""
    found = [
        f"{program} is missing: apt-get install {of}" for program, of in NEEDS.items() if not shutil.which(program)
    ]
    known = Path("/proc/filesystems").read_text().split()
    return found + [f"the kernel has no {kind}" for kind in ("btrfs", "ext4") if kind not in known]


class Disks:
    """A disk for each of some folders, mounted over it with all that it holds; `with` it, they are there.

    In the end the folders are as they were before, and no mount, loop device or file is left.
    """

    def __init__(self, work: Path, folders: Sequence[Path]) -> None:
        self.work, self.folders = work, folders
        self.pool = work / "pool"
        self.cuts: list[Path] = []

    def __enter__(self) -> "Disks":
        try:
            self.pool.mkdir(parents=True)
            run(["truncate", "--size", _SIZE, self.work / "pool.img"])
            run(["mkfs.btrfs", "--quiet", self.work / "pool.img"])
            run(["mount", "-o", "loop", self.work / "pool.img", self.pool])
            for number, folder in enumerate(self.folders):
                self._make(number, folder)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def cut(self) -> None:
        """Keep the disks as they are now: after `come_back` they have this content."""
        self.cuts = [self._image(number).with_suffix(".cut") for number in range(len(self.folders))]
        for number, after in enumerate(self.cuts):
            with self._image(number).open("rb") as disk, after.open("wb") as copy:
                fcntl.ioctl(copy, FICLONE, disk.fileno())

    def come_back(self) -> None:
        """Mount what the disks had when their power was cut. No process may use them; later writes are lost."""
        for number, folder in enumerate(self.folders):
            unmount_below(folder)
            self.cuts[number].replace(self._image(number))
            self._mount(number, folder)

    def _make(self, number: int, folder: Path) -> None:
        run(["truncate", "--size", _SIZE, self._image(number)])
        run(["mkfs.ext4", "-q", "-E", "root_owner=0:0", self._image(number)])
        fill = self.work / "fill"
        fill.mkdir(exist_ok=True)
        self._mount(number, fill)
        shutil.copystat(folder, fill)
        run(["cp", "-a", f"{folder}/.", fill])
        run(["umount", fill])
        self._mount(number, folder)

    def _mount(self, number: int, folder: Path) -> None:
        device = run(["losetup", "--find", "--show", "--direct-io=on", self._image(number)]).strip()
        try:
            run(["mount", device, folder])
        finally:
            run(["losetup", "--detach", device])  # when it is unmounted; at once where it was not mounted

    def _image(self, number: int) -> Path:
        return self.pool / f"disk{number}.img"

    def _remove(self) -> None:
        for folder in (*self.folders, self.work):
            unmount_below(folder)
        if self.work.exists():
            shutil.rmtree(self.work)
