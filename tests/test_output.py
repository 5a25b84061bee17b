"""Output that is lost is no error, and what Python holds for it does not fail later."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from surefoot.output import forgiving, forgiving_output, say


class Full(io.StringIO):
    """Takes nothing, and counts how often it was asked."""

    asked = 0

    def write(self, text: str) -> int:
        self.asked += 1
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_written_is_passed_over_and_not_tried_again() -> None:
    full = Full()
    stream = forgiving(full)
    assert [stream.write("lost\n"), stream.write("lost too\n")] == [5, 9]
    stream.flush()
    assert full.asked == 1


def test_a_closed_or_missing_stream_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    forgiving(closed).write("lost")
    monkeypatch.setattr(sys, "stderr", None)
    say("lost")


def test_what_has_no_letters_for_the_text_still_says_so() -> None:
    stream = forgiving(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with pytest.raises(UnicodeEncodeError):
        stream.write("─")


def test_within_the_block_all_output_is_forgiving_and_comes_through() -> None:
    before = sys.stdout, sys.stderr
    out, err = io.StringIO(), io.StringIO()
    sys.stdout, sys.stderr = out, err
    try:
        with forgiving_output():
            print("said")
            say("told")
            assert not sys.stdout.isatty()
    finally:
        sys.stdout, sys.stderr = before
    assert (out.getvalue(), err.getvalue()) == ("said\n", "told\n")
