"""NVIDIA's GPUs of a host, and its driver: read from files, without a program of the driver's."""

import glob
import os
import re

VENDOR = "0x10de"
DISPLAY = "0x03"
LOADED = "/proc/driver/nvidia/version"
LIBRARIES = (
    "/usr/lib/*-linux-gnu/libcuda.so.*.*",
    "/usr/lib/*-linux-gnu/nvidia/*/libcuda.so.*.*",
    "/usr/lib64/libcuda.so.*.*",
)


def look(root="/"):
    """{cards: PCI ids, module: version of the loaded one, library: version on the disk}; '' for what is not there."""
    return {"cards": cards(root), "module": module(_text(_under(root, LOADED))), "library": library(root)}


def cards(root="/"):
    """Vendor and device of each display controller of NVIDIA's, as lspci -n names them: 10de:20b0."""
    found = []
    for folder in sorted(glob.glob(_under(root, "/sys/bus/pci/devices/*"))):
        vendor, kind, device = (_text(f"{folder}/{name}").strip() for name in ("vendor", "class", "device"))
        if vendor == VENDOR and kind.startswith(DISPLAY):
            found.append(f"{vendor[2:]}:{device[2:]}")
    return found


def module(text):
    """The version in /proc/driver/nvidia/version, of the closed and of the open modules."""
    found = re.search(r"^NVRM version:.* Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", text, re.MULTILINE)
    return found.group(1) if found else ""


def library(root="/"):
    """The newest version of libcuda on the disk: that is what programs load, whichever module runs."""
    names = [os.path.basename(path) for pattern in LIBRARIES for path in glob.glob(_under(root, pattern))]
    versions = [match.group(1) for name in names if (match := re.fullmatch(r"libcuda\.so\.(\d+(?:\.\d+)+)", name))]
    return max(versions, key=lambda one: [int(part) for part in one.split(".")], default="")


def _under(root, path):
    return os.path.join(root, path.lstrip("/"))


def _text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
