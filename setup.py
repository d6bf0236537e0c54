"""What a wheel has beside the packages: what provisioning and runs read as files, below `regatta/project`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
OF_FRAMEWORKS = sorted(str(path.relative_to(HERE)) for path in HERE.glob("regatta/frameworks/*/node"))
TREES = ("ansible", "regatta_protocol", "workloads", "requirements", "regatta/node", *OF_FRAMEWORKS)
FILES = ("inventory/example/hosts.yml", "inventory/example/README.md", "inventory/local/hosts.yml")
NOT = shutil.ignore_patterns("__pycache__", "*.pyc", ".ansible", ".ruff_cache", ".mypy_cache")


class Build(build_py):
    """As setuptools builds, and those files."""

    def run(self) -> None:
        """Copy them again: an earlier build may have left other files."""
        super().run()
        if self.editable_mode:
            return
        project = Path(self.build_lib) / "regatta" / "project"
        shutil.rmtree(project, ignore_errors=True)
        for tree in TREES:
            shutil.copytree(HERE / tree, project / tree, ignore=NOT)
        for file in FILES:
            (project / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / file, project / file)


setup(cmdclass={"build_py": Build})
