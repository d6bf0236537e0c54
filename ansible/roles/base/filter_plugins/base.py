"""The hosts file and the number of the layout, as filters."""

from regatta.node import layout
from regatta.provisioning.hostsfile import with_block, without_block


class FilterModule:
    """`text | base_hosts(names, own)`, `text | base_hosts_before` and `'' | base_layout`, a number."""

    def filters(self):
        """What Ansible finds here."""
        return {"base_hosts": with_block, "base_hosts_before": without_block, "base_layout": lambda _: layout.NUMBER}
