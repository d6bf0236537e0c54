"""A sweep: one run for each choice of values."""

import pytest

from regatta.errors import UsageError
from regatta.options import kinds
from regatta.tasks import sweeping


def test_each_value_of_a_name_goes_with_each_of_another() -> None:
    found = sweeping.choices(kinds.sweep(["lr=0.1,0.01", "batch-size=32"]))
    assert found == [{"lr": "0.1", "batch-size": "32"}, {"lr": "0.01", "batch-size": "32"}]
    assert sweeping.named({"name": "night"}, 2) == {"name": "night-2"} and sweeping.named({}, 2) == {}
    assert sweeping.table([(found[0], None)]) == [
        ("lr", "batch-size", "run", "seconds"),
        ("0.1", "32", "failed", "-"),
    ]


@pytest.mark.parametrize("word", ["lr", "lr=", "=1", "lr=1,,2", "lr=1,", "l r=1"])
def test_a_sweep_of_no_values_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--sweep"):
        kinds.sweep([word])


def test_a_sweep_has_a_name_once_and_not_too_many_runs() -> None:
    with pytest.raises(UsageError, match="twice"):
        sweeping.choices(["lr=1", "lr=2"])
    with pytest.raises(UsageError, match="1024 runs"):
        sweeping.choices([f"{name}=1,2" for name in "abcdefghij"])
