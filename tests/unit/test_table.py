from regatta.report import listing
from regatta.terminal import table
from tests.unit import kept

ROWS = [("run", "state", "nodes", "took"), ("first", "running", "node1,node2,node3", "9.1 s"), ("b", "lost", "-", "-")]


def test_a_row_is_one_line_where_there_is_room() -> None:
    lines = ["run    state    nodes              took", "first  running  node1,node2,node3  9.1 s"]
    assert table.aligned(ROWS)[:2] == table.aligned(ROWS, width=40)[:2] == lines


def test_a_wide_row_continues_below_and_cells_stay_whole() -> None:
    assert table.aligned(ROWS, width=30) == [
        "run    state",
        "    nodes              took",
        "first  running",
        "    node1,node2,node3  9.1 s",
        "b      lost",
        "    -                  -",
    ]


def test_a_last_cell_of_many_words_is_wrapped_between_them() -> None:
    rows = [("node", "services"), ("node1", "datanode namenode ray-head prometheus")]
    assert table.aligned(rows, width=24) == [
        "node",
        "    services",
        "node1",
        "    datanode namenode",
        "    ray-head prometheus",
    ]


def test_numbers_of_many_columns_have_further_tables() -> None:
    rows = [("seconds", "torch", "ray"), ("total", "1.00", "12.00")]
    assert table.aligned(rows, numbers=True, width=14) == [
        "seconds  torch",
        "total     1.00",
        "seconds    ray",
        "total    12.00",
    ]


def test_lists_of_runs_fit_into_80_columns() -> None:
    rows = [listing.HEADINGS, *(line.cells() for line in listing.of_records(kept.records()))]
    lines = table.aligned(rows, width=80)
    assert max(map(len, lines)) <= 80 and len(lines) == 2 * len(rows)
    said = "\n".join(lines)
    assert all(cell in said for row in rows for cell in row)
