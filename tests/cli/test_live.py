"""The displays: what they say follows from the iterations and passes that they are told of."""

import io
import math
import threading

import pytest
from rich.console import Console

from aidlearn import PassProgress, words
from aidlearn.cli import live
from aidlearn.cli.live import Display, FitProgress, LineDisplay, LiveDisplay, watching


def record(number, gap, seconds, objective=100.0, clusters=10):
    """An iteration with this gap."""
    from dataclasses import fields

    from aidlearn import Iteration

    known = {
        "iteration": number,
        "n_clusters": clusters,
        "aggregation_rate": clusters / 1000,
        "lower_bound": objective * (1 - gap),
        "objective": objective,
        "best_objective": objective,
        "best_lower_bound": objective * (1 - gap),
        "gap": gap,
        "n_violated": 3,
        "seconds": seconds,
    }
    return Iteration(**{field.name: known[field.name] for field in fields(Iteration) if field.name in known})


def test_the_bar_is_on_a_log_scale():
    track = FitProgress(1e-6)
    expected = [0.0, 0.25, 0.5, 1.0, 1.0]
    for k, gap in enumerate([1e-2, 1e-3, 1e-4, 1e-6, 1e-9]):
        track.records.append(record(k + 1, gap, float(k)))
        assert track.closed() == pytest.approx(expected[k])


@pytest.mark.parametrize("gap", [math.inf, math.nan, -1e-17, 0.0, 5.0])
def test_odd_gaps_are_drawn(gap):
    track = FitProgress(0.0)
    track.records += [record(1, gap, 0.0), record(2, gap, 1.0)]
    assert 0.0 <= track.closed() <= 1.0
    left = track.remaining()
    assert left is None or left >= 0


def test_the_estimate_goes_on_as_before():
    track = FitProgress(1e-6)
    track.records.append(record(1, 1e-2, 10.0))
    assert track.remaining() is None
    track.records.append(record(2, 1e-3, 12.0))
    assert track.remaining() == pytest.approx(6.0)  # three more powers of ten, two seconds each
    track.records.append(record(3, 1e-3 * (1 - 1e-9), 1000.0))
    track.records = track.records[1:]
    assert track.remaining() is None  # it hardly moves


def test_lines(capsys, monkeypatch):
    display = LineDisplay("title", 1e-4)
    now = [display.started]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    for k in range(5):
        display.on_pass(PassProgress(1, 100 * k, 1000, 0.5))
    assert capsys.readouterr().err == ""
    now[0] += 3
    display.on_pass(PassProgress(1, 500, 1000, 0.5))
    display.on_pass(PassProgress(1, 600, 1000, 0.5))
    assert capsys.readouterr().err == "pass 1: 50% of the rows, 1k rows/s\n"
    assert display(record(1, 1e-2, 1.5)) is False
    line = "iteration 1: gap 1.0e-02, 99.00 <= optimum <= 100.00, 10 clusters (1% of the rows), 1.50 s\n"
    assert capsys.readouterr().err == line


def test_several_fits_are_counted(capsys):
    display = LineDisplay("title", 1e-4, n_fits=2)
    for number in (1, 2, 1):
        display(record(number, 1e-2, 1.0))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "fit 1 of 2, iteration 1",
        "fit 1 of 2, iteration 2",
        "fit 2 of 2, iteration 1",
    ]


def test_fits_in_threads_are_told_apart():
    display = Display("title", 1e-4, n_fits=2)
    both = threading.Barrier(2)

    def fit():
        for number in (1, 2):
            both.wait()
            display(record(number, 1e-2, 1.0))

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(track.records) for track in display.tracks] == [2, 2]


def drawn(board, width):
    screen = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    screen.print(board.render())
    return screen.file.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [30, 46, 80, 200])
def test_the_board_has_one_height_and_fits_the_terminal(width):
    screen = Console(file=io.StringIO(), width=width, force_terminal=True)
    board = LiveDisplay("LADRegressor of a file with a very long name.parquet: 1,000,000 rows", 1e-6, 1, screen)
    heights = [len(drawn(board, width))]
    board.on_pass(PassProgress(1, 400, 1000, 0.1))
    heights.append(len(drawn(board, width)))
    for number, gap in ((1, 1e-2), (2, 1e-4), (3, 1e-7)):
        board(record(number, gap, float(number), objective=123456.789))
        lines = drawn(board, width)
        heights.append(len(lines))
        assert max(map(len, lines)) <= width
    assert heights == [6] * 5


def test_the_board_says_what_happens():
    board = LiveDisplay("title", 1e-6, 1, Console(file=io.StringIO(), width=100, force_terminal=True))
    assert "no bound yet" in "\n".join(drawn(board, 100))
    board.on_pass(PassProgress(4, 500, 1000, 0.001))
    board(record(1, 1e-2, 1.0))
    board(record(2, 1e-3, 2.0))
    text = "\n".join(drawn(board, 100))
    for piece in ("1.0e-03, goal 1e-06", "99.900 to 100.000", "10 (1% of the rows), 3 to split", "500k rows/s"):
        assert piece in text
    assert "about 0:0" in text
    assert "iteration 2" in text


def test_the_board_shows_the_fit_that_matters():
    board = LiveDisplay("title", 1e-6, 2, Console(file=io.StringIO(), width=100, force_terminal=True))
    board(record(1, 0.5, 1.0))
    board(record(1, 1e-3, 2.0))  # the next one, in the same thread
    assert "1.0e-03, goal" in "\n".join(drawn(board, 100))
    assert "fit 2 of 2" in "\n".join(drawn(board, 100))
    board = LiveDisplay("title", 1e-6, 2, Console(file=io.StringIO(), width=100, force_terminal=True))
    board(record(1, 0.5, 1.0))
    other = threading.Thread(target=board, args=(record(1, 1e-3, 2.0),))
    other.start()
    other.join()
    assert "5.0e-01, goal" in "\n".join(drawn(board, 100))


def test_a_terminal_gets_the_board(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with watching("title", 1e-4) as display:
        assert isinstance(display, LiveDisplay)
    monkeypatch.setenv("TERM", "dumb")
    with watching("title", 1e-4) as display:
        assert isinstance(display, LineDisplay)
    with watching("title", 1e-4, quiet=True) as display:
        assert type(display) is Display


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (999096.5774, 999096.5856, ("999,096.5774", "999,096.5856")),
        (99.0, 100.0, ("99.00", "100.00")),
        (1.0, 1.0, ("1.0000000000", "1.0000000000")),
        (0.0, 0.0, ("0.0000000000", "0.0000000000")),
        (-math.inf, 12.5, ("unknown", "12.50")),
        (1.23e15, 1.24e15, ("1.23e+15", "1.24e+15")),
        (1e-9, 2e-9, ("1e-09", "2e-09")),
    ],
)
def test_digits_that_tell_bounds_apart(low, high, expected):
    assert words.enclosing(low, high) == expected


def test_numbers_in_words():
    assert [words.short_count(n) for n in (7, 35_200, 1.21e6, 3e9)] == ["7", "35.2k", "1.21M", "3G"]
    assert [words.duration(s) for s in (0.831, 12.44, 187, 3753)] == ["0.83 s", "12.4 s", "3:07", "1:02:33"]
    assert words.aligned([1846.358, -0.76, 0.0]) == ["1,846.36", "-0.76", "0.00"]
    assert words.aligned([-1e-14, 1.0]) == ["0.00000", "1.00000"]
    assert [words.percent(p) for p in (0.00012, 0.034, 0.57, 1.0)] == ["0.012%", "3.4%", "57%", "100%"]


def test_a_long_search_is_a_line_and_a_row(capsys):
    display = LineDisplay("title", 1e-4)
    display.on_search(1)
    assert capsys.readouterr().err == ""  # a line every few seconds
    display._said -= 10
    display.on_search(1234)
    assert capsys.readouterr().err == "branch and bound: 1,234 nodes\n"
    assert dict(display.rows())["search"] == "1,234 nodes of a branch and bound"
