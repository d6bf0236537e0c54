"""The report before any change: all problems of all hosts, each with its host and what to do."""

import json

import modules
import pytest

from regatta.node import layout
from regatta.provisioning import access

FILTERS = modules.load("preflight_filters", "roles/preflight/filter_plugins/preflight.py")
FIREWALLS = modules.load("otherfirewalls", "roles/preflight/filter_plugins/otherfirewalls.py")
BASE = modules.load("base_filters", "roles/base/filter_plugins/base.py")
with_block, without_block = BASE.with_block, BASE.without_block
summary = modules.load("summary", "playbooks/filter_plugins/summary.py").summary
NOW = 1_000_000.0
LIMITS = {
    "only_reach": False,
    "layout": layout.NUMBER,
    "older_layout": "refused",
    "folders": {"regatta_root": "/opt/regatta", "regatta_state": "/var/lib/regatta"},
    "disk_mb": {"/opt/regatta": 4500, "/var/lib/regatta": 1000},
    "disk_mb_again": {"/opt/regatta": 200, "/var/lib/regatta": 200},
    "memory_mb": 1500,
    "clock_skew_s": 5,
    "fuse": True,
    "ports": {6379: "Ray (ray_gcs_port)"},
    "java_homes": ["hdfs_java_home", "spark_java_home"],
}
GROUPS = {"head": ["n1"], "workers": ["n1", "n2"]}


def host(address: str = "10.0.0.1", **changes: object) -> dict:
    return {
        "address": address,
        "clock": NOW,
        "sent": NOW,
        "os": {"id": "debian", "version": "12", "name": "Debian GNU/Linux 12"},
        "python": "3.11.2",
        "machine": "x86_64",
        "sudo": True,
        "user": "ubuntu",
        "systemd": True,
        "interface": "eth0",
        "addresses": [address],
        "memory": 8_000_000_000,
        "disks": {p: {"free": 9e9, "device": 1} for p in ("/opt/regatta", "/var/lib/regatta")},
        "has_environment": False,
        "listeners": [],
        "container": "",
        "layout": 0,
        "fuse": True,
        "own_firewall": {"name": "", "lets_in": []},
        **changes,
    }


def report(results: dict, groups: dict, limits: dict, logins: dict, now: float) -> dict[str, list[str]]:
    """As tasks/report.yml puts filters and the controller's step together."""
    unclear = json.loads(json.dumps(FILTERS.unclear(results, limits, logins)))
    found = FILTERS.report(results, groups, limits, access.reasons(unclear), now)
    firewalls = [] if limits["only_reach"] else FIREWALLS.problems(results)
    return {"problems": found["problems"] + firewalls, "warnings": found["warnings"]}


def problems(*hosts: dict, groups: dict | None = None, **limits: object) -> list[str]:
    results = {f"n{number}": result for number, result in enumerate(hosts, start=1)}
    logins = {name: {"host": f"10.0.0.{name[1:]}", "user": "ubuntu"} for name in results}
    groups = groups if groups is not None else {"head": ["n1"], "workers": list(results)}
    return report(results, groups, {**LIMITS, **limits}, logins, NOW)["problems"]


def test_nothing_wrong() -> None:
    assert problems(host(), host("10.0.0.2")) == []


def test_two_names_of_one_machine_are_named_once() -> None:
    here, clone = "5c8e0e1f 9b7d1f04 ada", "5c8e0e1f 00c1f2aa bob"
    (said,) = problems(host(one_machine=here), host("10.0.0.2", one_machine=here), host("10.0.0.3", one_machine=clone))
    assert said.startswith("n1 and n2 are one machine (ada): ")
    (said,) = problems(host(one_machine=here), host(one_machine=here))
    assert "one machine" in said
    assert problems(host(one_machine=""), host("10.0.0.2", one_machine="")) == []
    found = modules.gather().one_machine()
    assert found == modules.gather().one_machine() and len(found.split()) in (0, 3)


def test_a_name_that_java_refuses() -> None:
    limits = {**LIMITS, "java_names": ["hdfs"]}
    said = report({"gpu_head": host()}, {"head": ["gpu_head"], "workers": ["gpu_head"]}, limits, {}, NOW)["problems"]
    assert len(said) == 1 and said[0].startswith("gpu_head: ") and "gpu-head" in said[0] and "hdfs_enabled" in said[0]
    limits["java_names"] = []
    assert not report({"gpu_head": host()}, {"head": ["gpu_head"], "workers": ["gpu_head"]}, limits, {}, NOW)[
        "problems"
    ]


def test_a_java_that_a_variable_names_and_is_none() -> None:
    said = problems(host(wrong_javas={"spark_java_home": "Java 11 in /x, and Java 17 to 21 is needed"}))
    assert len(said) == 1 and said[0].startswith("n1") and "Java 11" in said[0] and "spark_java_home" in said[0]


def test_sources_without_a_java_that_fits_are_told_with_all_other_problems() -> None:
    wanted = "openjdk-21-jre-headless|openjdk-17-jre-headless"
    said = problems(host(unobtainable=[wanted], memory=1), host("10.0.0.2", unobtainable=[wanted]))
    assert len(said) == 2 and said[1].startswith("n1, n2: ") and "spark_java_home" in said[1]
    assert "openjdk-21-jre-headless or openjdk-17-jre-headless" in said[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"address": "fd00::1", "interface": "eth0"}, "fd00::1 is an IPv6 address; .*IPv4"),
        ({"address": "::ffff:10.0.0.1", "interface": ""}, "::ffff:10.0.0.1 is an IPv6 address"),
        ({"os": {"id": "fedora", "version": "43", "name": "Fedora 43"}}, "Fedora 43; supported are Debian 12"),
        ({"os": {"id": "debian", "version": "11", "name": "Debian 11"}}, "Debian 11; supported"),
        ({"python": "3.9.2"}, "3.10 is the oldest"),
        ({"sudo": False}, "sudo without a password: give it .* or add 'ubuntu"),
        ({"sudo": False, "password_given": True}, "may not use sudo with the password that was given"),
        ({"systemd": False}, "systemd does not run"),
        ({"interface": "", "addresses": ["10.9.9.9"]}, "10.0.0.1 is not an address of this host; it has 10.9.9.9"),
        ({"memory": 500_000_000}, "500 MB of memory"),
        ({"clock": NOW + 60}, "60 s ahead"),
        ({"clock": NOW - 60}, "60 s behind"),
        (
            {"listeners": [{"port": 6379, "process": "redis", "unit": "redis.service"}]},
            "port 6379, Ray .* redis.service",
        ),
        ({"listeners": [{"port": 6379, "process": "", "unit": ""}]}, "an unknown process"),
        ({"fuse": False}, "no /dev/fuse.*shared_folder_path"),
        (
            {"unreachable": True, "msg": "ssh: connect to host x port 22: No route to host"},
            "does not answer .*No route",
        ),
        (
            {"unreachable": True, "msg": "ubuntu@x: Permission denied (publickey)."},
            "refuses our key: check ansible_user",
        ),
        (
            {"unreachable": True, "msg": "@ REMOTE HOST IDENTIFICATION HAS CHANGED! @"},
            "host key of .*regatta forget --node n1",
        ),
    ],
)
def test_each_problem_names_its_host(changes: dict, said: str) -> None:
    (found,) = problems(host(**changes))
    assert found.startswith("n1: ")
    assert __import__("re").search(said, found), found


def test_an_ipv6_address_beside_a_firewall_of_the_user_is_refused_all_the_same() -> None:
    ufw = {"name": "ufw", "lets_in": ["10.0.0.0/24"]}
    found = problems(host("fd00::1"), host("10.0.0.2", own_firewall=ufw))
    assert [line[:2] for line in found if "IPv6" in line] == ["n1"]


def test_all_at_once() -> None:
    found = problems(
        host(sudo=False), host("10.0.0.2", unreachable=True, msg="Connection refused"), host("10.0.0.3", memory=1)
    )
    assert sorted(line[:2] for line in found) == ["n1", "n2", "n3"]


def test_a_firewall_of_the_user_that_keeps_members_apart() -> None:
    def ufw(*sources: str) -> dict:
        return {"name": "ufw", "lets_in": list(sources)}

    assert problems(host(own_firewall=ufw("10.0.0.0/24")), host("10.0.0.2", own_firewall=ufw("10.0.0.1"))) == []
    (found,) = problems(host(), host("10.0.0.2", own_firewall=ufw("10.0.0.7", "somewhere")), host("10.0.0.3"))
    assert found.startswith("n2: ufw is active there and drops what 10.0.0.1, 10.0.0.3 send")
    assert "sudo ufw allow from 10.0.0.1; sudo ufw allow from 10.0.0.3" in found
    (found,) = problems(host(own_firewall={"name": "firewalld", "lets_in": []}), host("10.0.0.2"))
    assert "--zone=trusted --add-source=10.0.0.2" in found


@pytest.mark.parametrize(
    ("number", "limits", "said"),
    [
        (layout.NUMBER + 1, {}, "update this checkout"),
        (layout.NUMBER + 1, {"only_reach": True, "older_layout": "removed"}, "update this checkout"),
        (1, {}, ""),
        (1, {"only_reach": True}, "run 'regatta provision' first"),
        (1, {"only_reach": True, "older_layout": "removed"}, ""),
        (layout.NUMBER, {"only_reach": True}, ""),
        (0, {"only_reach": True}, ""),
    ],
)
def test_another_layout_is_refused_unless_it_is_carried_over_or_removed(number: int, limits: dict, said: str) -> None:
    found = problems(host(layout=number), host("10.0.0.2", layout=number), **limits)
    assert [line.partition(":")[0] for line in found] == (["n1, n2"] if said else [])
    assert all(said in line for line in found)


def test_a_host_without_python() -> None:
    (found,) = problems({"rc": 127, "msg": "x", "module_stderr": "/bin/sh: /usr/bin/python3: not found"})
    assert "apt-get install python3" in found


def test_the_odd_one_out_is_named() -> None:
    found = problems(host(), host("10.0.0.2"), host("10.0.0.3", python="3.12.3", machine="aarch64"))
    assert found[0].startswith("all hosts must have the same Python: n3 has 3.12; n1, n2 3.11")
    assert "n3 has aarch64" in found[1]


def test_a_patch_release_is_a_warning() -> None:
    results = {"n1": host(), "n2": host("10.0.0.2", python="3.11.9")}
    found = report(results, GROUPS, LIMITS, {}, NOW)
    assert not found["problems"]
    assert "n2 has 3.11.9" in found["warnings"][0] or "n1 has 3.11.2" in found["warnings"][0]


def test_a_newer_system_is_a_warning() -> None:
    result = host(os={"id": "ubuntu", "version": "28.04", "name": "Ubuntu 28.04"})
    found = report({"n1": result}, {"head": ["n1"], "workers": ["n1"]}, LIMITS, {}, NOW)
    assert (found["problems"], len(found["warnings"])) == ([], 1)


def test_an_sshfs_without_its_fixes_is_a_warning() -> None:
    found = report({"n1": host(old_sshfs="3.7.3-1.1")}, {"head": ["n1"], "workers": ["n1"]}, LIMITS, {}, NOW)
    assert found["problems"] == [] and "sshfs 3.7.3-1.1 lacks" in found["warnings"][0]


def test_disks_on_one_filesystem_need_the_sum() -> None:
    disks = {p: {"free": 5e9, "device": 1} for p in ("/opt/regatta", "/var/lib/regatta")}
    assert "needs 5500" in problems(host(disks=disks))[0]
    disks["/var/lib/regatta"] = {"free": 5e9, "device": 2}
    assert problems(host(disks=disks)) == []
    assert problems(host(disks={p: {"free": 1e9, "device": 1} for p in disks}, has_environment=True)) == []


def test_our_own_services_may_hold_our_ports() -> None:
    assert problems(host(listeners=[{"port": 6379, "process": "gcs", "unit": "regatta-ray-head.service"}])) == []


def test_a_slow_connection_is_no_clock_skew() -> None:
    assert problems(host(clock=NOW - 2, sent=NOW - 9)) == []


@pytest.mark.parametrize(
    "groups", [{"head": [], "workers": ["n1"]}, {"head": ["a", "b"], "workers": ["a"]}, {"head": ["a"]}]
)
def test_groups(groups: dict) -> None:
    assert any(line.startswith("inventory: group") for line in problems(host(), groups=groups))


@pytest.mark.parametrize("path", ["/", "/opt", "regatta", "/var/lib", ""])
def test_folders_that_teardown_could_not_delete_are_refused(path: str) -> None:
    assert problems(host(), folders={"regatta_root": path})[0].startswith("inventory: regatta_root is")


def test_a_part_of_the_cluster_alone_is_refused() -> None:
    assert "leaves out n2" in problems(host(), groups=GROUPS)[0]


def test_without_sudo_no_port_is_said_to_be_taken_by_somebody() -> None:
    (said,) = problems(
        host(sudo=False, listeners=[{"port": port, "unit": "", "process": ""} for port in LIMITS["ports"]])
    )
    assert "sudo" in said


def test_same_address_twice() -> None:
    assert "n1 and n2 have the same cluster_address 10.0.0.1" in problems(host(), host())[0]


def test_only_reach_asks_for_nothing_else() -> None:
    assert problems(host(memory=1, systemd=False), only_reach=True) == []
    assert "sudo" in problems(host(sudo=False), only_reach=True)[0]


HOSTS = "127.0.0.1\tlocalhost\n127.0.1.1\tn1\n\n10.1.1.1 mine\n"


def test_hosts_file_and_back() -> None:
    names = {"10.0.0.1": ["n1", "vm-1"], "10.0.0.2": ["n2", "n2"]}
    once = with_block(HOSTS, names, ["n1", "vm-1"])
    assert "\n127.0.1.1" not in once
    assert "\n10.0.0.1 n1 vm-1\n10.0.0.2 n2\n" in once
    assert with_block(once, names, ["n1", "vm-1"]) == once
    assert without_block(once) == HOSTS
    assert without_block(HOSTS) == HOSTS


def test_localhost_stays_even_where_it_claims_our_name() -> None:
    assert "\n127.0.0.1 localhost n1" in "\n" + with_block("127.0.0.1 localhost n1\n", {}, ["n1"])


def verified(**answers: dict) -> dict:
    """Return what is registered on a host whose services are well, but for `answers`."""
    well = {"problems": [], "lines": ["it works"]}
    return {f"{role}_verified": well for role in ("ssh_mesh", "shared", "toy")} | answers


def test_verify_fails_for_versions_that_differ_and_for_what_was_not_checked() -> None:
    services = [["shared", "node"], ["toy", "cluster"]]
    torch = {number: {"python_env_verified": {"problems": [], "versions": {"torch": number}}} for number in "23"}
    good = {name: verified(**torch["2"]) for name in ("n1", "n2")}
    assert summary(good, ["n1", "n2"], services)["problems"] == []
    assert summary(good, ["n1", "n2"], services)["lines"].count("it works") == 1
    bad = {**good, "n2": verified(**torch["3"])}
    assert summary(bad, ["n1", "n2"], services) == {"lines": [], "problems": ["torch differs: n1 has 2, n2 has 3"]}
    unchecked = {**good, "n2": {name: value for name, value in good["n2"].items() if name != "ssh_mesh_verified"}}
    assert "n2: was not checked" in summary(unchecked, ["n1", "n2"], services)["problems"]


def test_verify_names_the_node_of_a_problem_or_the_head_for_one_of_the_cluster() -> None:
    answers = {"python_env_verified": {"problems": []}, "shared_verified": {"problems": ["gone"]}}
    said = {name: verified(**answers, toy_verified={"problems": ["down"]}) for name in ("n1", "n2")}
    found = summary(said, ["n1", "n2"], [["shared", "node"], ["toy", "cluster"], ["more", "cluster"]])
    assert found["problems"] == ["n1: gone", "n2: gone", "head: down", "head: more was not checked"]


def test_verify_names_the_host_that_is_slow_in_an_all_reduce_with_every_other_one() -> None:
    rates = {"n1": {1: 90e6, 2: 40e6}, "n2": {0: 91e6, 2: 39e6}, "n3": {0: 41e6, 1: 40e6}}
    answers = {
        name: verified(python_env_verified={"problems": [], "versions": {}, "rates": of}) for name, of in rates.items()
    }
    lines = summary(answers, [*rates], [])["lines"]
    assert "all-reduce of two hosts: 39 MB/s (n2, n3) to 91 MB/s (n2, n1)" in lines
    assert [line for line in lines if "slow" in line] == ["n3 is slow in an all-reduce with every other host: 41 MB/s"]
