"""What verify found, for a person, and what provisioning would start anew, as filters."""

from regatta.provisioning.interruption import units_anew
from regatta.provisioning.summary import summary


class FilterModule:
    """`hostvars of nodes | verify_summary` -> {lines, problems}; `hostvars | units_anew(hosts)` -> {host: units}."""

    def filters(self):
        """What Ansible finds here."""
        return {"verify_summary": summary, "units_anew": units_anew}
