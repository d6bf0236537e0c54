"""The hosts file, as filters."""

from regatta.provisioning.hostsfile import with_block, without_block


class FilterModule:
    """`text | base_hosts(names, own)` and `text | base_hosts_before`."""

    def filters(self):
        """What Ansible finds here."""
        return {"base_hosts": with_block, "base_hosts_before": without_block}
