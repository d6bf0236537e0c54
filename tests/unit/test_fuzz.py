"""Input from outside is data: whatever it is, the controller's parsers end with a value or one of our errors."""

import contextlib
import json
import shlex
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from regatta.errors import InventoryError, RecordError, RegattaError
from regatta.hosts import hostkeys, inventories, sshconfig
from regatta.node import support
from regatta.records.document import parse
from regatta_protocol import events

KEPT = sorted((Path(__file__).parent / "records").glob("*.json"))[:3]
hostile = st.sampled_from(
    [
        "",
        "-oProxyCommand=touch x",
        "a b",
        "a;b",
        "$(b)",
        "`b`",
        "a\nb",
        "'",
        '"',
        "../x",
        "\0",
        "{{ 7 * 7 }}",
        "é",
        "x" * 300,
    ]
)
texts = st.one_of(st.text(max_size=20), hostile)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
OURS = ("ansible_host", "ansible_port", "ansible_user", "ansible_ssh_common_args", "ansible_ssh_private_key_file")
variables = st.dictionaries(
    st.sampled_from([*OURS, "ansible_connection", "cluster_address", "regatta_root", "regatta_state"]),
    st.one_of(texts, st.integers(), st.sampled_from(["10.0.0.1", "10.0.0.2", "-J x", "22"])),
    max_size=5,
)


@given(st.lists(st.tuples(texts, variables), max_size=3))
def test_inventories(hosts: list[tuple[str, dict[str, object]]]) -> None:
    names = [name for name, _ in hosts]
    listing = {
        "_meta": {"hostvars": dict(hosts)},
        "head": {"hosts": names[:1]},
        "workers": {"hosts": names},
    }
    try:
        made = inventories.build("fuzz", Path("/i"), listing)
    except InventoryError:
        return
    for node in made.nodes:
        assert shlex.quote(node.name) == node.name
        assert not node.host.startswith("-") and not (node.user or "").startswith("-")
        assert not set('\n\r\0"') & set(f"{node.host}{node.user}{node.key_file}")
        assert len(sshconfig.render(Path("/i"), [node], accept_new=False).splitlines()) > 20


@given(st.one_of(st.text(), st.builds(lambda value: f"@regatta {json.dumps(value)}", values)))
def test_events(line: str) -> None:
    events.parse_line(line)


@given(st.dictionaries(st.sampled_from(["event", "rank", "t", "name", "seconds", "answer", "tolerance"]), values))
def test_events_with_the_right_names(fields: dict[str, object]) -> None:
    events.parse_line(f"log @regatta {json.dumps(fields)} more")


@given(st.sampled_from(KEPT), st.data())
def test_records(path: Path, data: st.DataObject) -> None:
    document = json.loads(path.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        where = document
        while isinstance(where, dict) and where:
            key = data.draw(st.sampled_from(sorted(where)))
            if not isinstance(where[key], dict) or data.draw(st.booleans()):
                where[key] = data.draw(values)
                break
            where = where[key]
    for text in (json.dumps(document), data.draw(st.text())):
        with contextlib.suppress(RecordError):
            parse(text, "fuzz")


@given(st.text(), st.text(max_size=10))
def test_lines_of_known_hosts(line: str, more: str) -> None:
    for text in (line, f"{line} {more}"):
        if pin := hostkeys.parse(text):
            assert pin.shown


@given(st.text(), st.text())
def test_what_ssh_says(before: str, after: str) -> None:
    said = hostkeys.explain("n1", "10.0.0.1", f"{before}HAS CHANGED{after}")
    assert isinstance(said, RegattaError)


@given(st.text(), st.binary(min_size=8).map(bytes.hex), st.text())
def test_no_secret_is_left_by_the_scrubber(before: str, secret: str, after: str) -> None:
    assert secret not in support.scrub(f"{before}{secret}{after}", [secret])
