"""Whether formatting would lose data, as a filter."""

from regatta.provisioning.hdfsdata import refusal


class FilterModule:
    """`what each host holds | hdfs_refusal(head, folder, inventory)` -> why not to go on, or empty."""

    def filters(self):
        """What Ansible finds here."""
        return {"hdfs_refusal": refusal}
