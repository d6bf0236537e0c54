"""Whether a NameNode may begin, as filters."""

from regatta.provisioning.hdfsdata import newest_checkpoint, refusal


class FilterModule:
    """`held | hdfs_refusal(head, folder, inventory, restore)` -> why not, or empty; `held | hdfs_newest_checkpoint`."""

    def filters(self):
        """What Ansible finds here."""
        return {"hdfs_refusal": refusal, "hdfs_newest_checkpoint": newest_checkpoint}
