"""What a build says on its terminal: lines of its own, and of its chapters as they come."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from booksite import terminal


class Stream(io.StringIO):
    """A terminal that does not say what it can write, and counts how often it was made to."""

    flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def test_a_line_is_shown_at_once(monkeypatch):
    shown = Stream()
    monkeypatch.setattr(sys, "stdout", shown)
    terminal.say("café, 5 of 7")
    assert shown.getvalue() == "[book] caf?, 5 of 7\n"
    assert shown.flushed


def test_what_ends_a_build_is_one_sentence_and_a_status(capsys):
    with pytest.raises(SystemExit) as ended:
        terminal.end("there is no book.")
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "[book] there is no book.\n")


def test_lines_of_a_file_are_shown_until_the_end(tmp_path, capsys):
    """Those of the last build are not, nor is anything after the end; a build can die meanwhile."""
    file = tmp_path / "deep" / "er" / "progress.log"
    before = set(threading.enumerate())
    for _ in range(2):
        with terminal.Following(file):
            assert file.read_text() == ""
            begun = set(threading.enumerate()) - before
            file.write_text("heads: 50%\nheads: 100%\n")
        file.open("a").write("late\n")
        assert capsys.readouterr().out == "[book] heads: 50%\n[book] heads: 100%\n"
        assert [thread.daemon for thread in begun] == [True], "nothing that holds up an end"
