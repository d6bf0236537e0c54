"""Things that the support bundle leaves out: secrets in every form in which settings and logs have them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regatta.node.support import REMOVED, scrub

NAMES = """ansible_become_pass ansible_ssh_pass ansible_password ansible_become_password vault_ray dbPass PASSWORD
REGATTA_TOKEN AWS_SECRET_ACCESS_KEY api-key smtp.pass db_pwd Authorization spark.authenticate.secret
spark.hadoop.fs.s3a.access.key spark.ssl.keyPassword"""
KEYS = st.sampled_from(NAMES.split())
PRINTED = st.characters(min_codepoint=33, max_codepoint=126)
WORDS = st.text(PRINTED, min_size=8, max_size=20).map(lambda word: f"Zq{word}qZ")
BARE = st.text(st.characters(categories=["L", "N"], max_codepoint=126), min_size=8, max_size=20).map("Zq{}qZ".format)
PLAIN = st.text(st.characters(categories=["L", "N"], max_codepoint=126), min_size=1, max_size=9)
LINES = [
    "{key}: {value}",
    "  - {key}: {value} {value}",
    "{key} = {value}",
    "export {key}={value}",
    "\t{key}:    {value}",
]
INLINE = [
    "n1 {key}={value} user=x",
    "say {key}={value}",
    "@{{{key}: {value} {value}, x: 1}}",
    "run --{key} {value} --x",
]
INLINE += ["https://me:{value}@h/x", "http_proxy=http://{value}@h:1", "all_proxy=me:{value}@h:1", "bearer {value}"]
BELOW = [
    "{key}:\n  a: {value}\n  - {value}\n\n    {value}\nafter: 1",
    "{key}: |\n  {value}\nafter: 1",
    "{key}: >-\n   {value}",
]


@given(st.sampled_from(LINES), KEYS, WORDS, PLAIN)
def test_no_value_of_a_setting_is_left(form: str, key: str, value: str, before: str) -> None:
    text = f"{before}\n{form.format(key=key, value=value)}\nuser: {before}\n"
    assert value not in scrub(text, [])
    assert scrub(text, []).startswith(f"{before}\n") and scrub(text, []).endswith(f"\nuser: {before}\n")


@given(st.sampled_from(INLINE), KEYS, BARE)
def test_no_value_within_a_line_is_left(form: str, key: str, value: str) -> None:
    assert value not in scrub(form.format(key=key, value=value), [])


@given(st.sampled_from(BELOW), KEYS, BARE)
def test_no_value_below_its_name_is_left(form: str, key: str, value: str) -> None:
    said = scrub(form.format(key=key, value=value), [])
    assert value not in said
    assert ("after: 1" in said) == ("after: 1" in form)


@settings(max_examples=30)
@given(KEYS, st.text(min_size=8).map("Zq{}qZ".format), st.integers(0, 2))
def test_no_value_in_json_is_left(key: str, value: str, indent: int) -> None:
    for found in ({key: value}, {"a": {key: [value]}}, {"a": [{"x": 1, key: value}]}, {key: {"b": value}}):
        for text in (json.dumps(found), json.dumps(found, indent=indent + 1)):
            assert json.dumps(value)[1:-1] not in scrub(text, [])


@pytest.mark.parametrize("space", [" ", "   ", "\t"])
@given(value=WORDS.filter(lambda word: word[0] not in ":="))
def test_no_value_of_sparks_properties_is_left(space: str, value: str) -> None:
    said = scrub(f"spark.master{space}spark://h:7077\nspark.authenticate.secret{space}{value}\nspark.x{space}1\n", [])
    assert said == f"spark.master{space}spark://h:7077\nspark.authenticate.secret{space}{REMOVED}\nspark.x{space}1\n"


def test_other_forms() -> None:
    texts = {
        "<property>\n<name>fs.s3a.secret.key</name>\n <value>hunter22</value>": "hunter22",
        "machine h login me password hunter22": "hunter22",
        "key: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162636465\n  6667\nb: 1": "6162636465",
        "$ANSIBLE_VAULT;1.1;AES256\n6162636465\n6667\n": "6667",
        "all_proxy=me:p@hunter22@h:1": "hunter22",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter22\n": "hunter22",
    }
    assert {text: secret for text, secret in texts.items() if secret in scrub(text, [])} == {}


def test_what_helps_stays() -> None:
    text = """\
Nov 25 12:00:00 node1 sshd[1]: Failed password for invalid user x from 1.2.3.4
PasswordAuthentication no
regatta-ray-worker.service loaded active running Ray
see https://github.com/a/b@main
LISTEN 0.0.0.0:22 users:(("sshd",pid=1,fd=3))
ansible_user: ubuntu
deb http://deb.debian.org/debian bookworm main
spark.executor.memory 2g
"""
    assert scrub(text, []) == text
