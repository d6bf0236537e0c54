"""A unit's ExecStartPost: return when its daemon answers at the URL; fail when its main process has ended."""

import os
import sys
import time
import urllib.error
import urllib.request


def answers(url):
    """Whether it says 200."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def main():
    """Ask until it does."""
    main_pid = os.environ.get("MAINPID", "self")
    while not answers(sys.argv[1]):
        if not os.path.exists(f"/proc/{main_pid}"):
            raise SystemExit(f"process {main_pid} has ended")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
