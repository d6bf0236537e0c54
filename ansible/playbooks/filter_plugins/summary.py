"""What verify found, for a person, as a filter."""

from regatta.provisioning.summary import summary


class FilterModule:
    """`hostvars of the nodes | verify_summary` -> {lines, problems}."""

    def filters(self):
        """What Ansible finds here."""
        return {"verify_summary": summary}
