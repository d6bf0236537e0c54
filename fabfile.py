"""What a person types about runs: `fab --list`. The tasks are regatta's own, so `regatta TASK` does the same."""

from regatta.tasks import namespace

__all__ = ["namespace"]
