"""The report of the preflight role, as filters."""

from regatta.provisioning.preflight import login, report


class FilterModule:
    """`results | preflight_report(groups, limits, logins)` -> {problems, warnings}; `hostvars | preflight_login`."""

    def filters(self):
        """What Ansible finds here."""
        return {"preflight_report": report, "preflight_login": login}
