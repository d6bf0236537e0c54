"""The message that a program under Spark gets for a pandas that is too new."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from regatta.paths import PROJECT

UTILS = """
import warnings
def require_minimum_pandas_version():
    warnings.warn("PySpark does not yet fully support pandas >= 3.0.0.", FutureWarning, stacklevel=2)
"""
PROGRAM = """
import warnings
for _ in range(3):
    from pyspark.sql.pandas.utils import require_minimum_pandas_version
    require_minimum_pandas_version()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
"""


def test_it_is_said_once(tmp_path: Path) -> None:
    boot, package = tmp_path / "boot", tmp_path / "pyspark/sql/pandas"
    boot.mkdir()
    package.mkdir(parents=True)
    shutil.copy(PROJECT / "regatta/frameworks/ray/run/sitecustomize.py", boot / "sitecustomize.py")
    for name in ("node/imports", "frameworks/spark/run/sparkpandas"):
        shutil.copy(PROJECT / f"regatta/{name}.py", boot / f"regatta_{Path(name).name}.py")
    (package / "utils.py").write_text(UTILS)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{boot}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.count("does not yet fully support") == 1, done.stderr
