"""One step at a time below a folder: what an interrupted controller left running on a node is waited for."""

import contextlib
import fcntl
import os
import time


@contextlib.contextmanager
def exclusive(module, folder, seconds=300):
    """Hold the folder's lock; whoever has it gets `seconds` to end. A folder that is not there needs none."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield
        return
    try:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    module.fail_json(
                        msg=f"{folder}: an interrupted provisioning still works there after {seconds} s; "
                        "end its python3 process on this host and try again"
                    )
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
