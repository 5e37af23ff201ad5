from turnout.cli.local.lines import LONGEST_LINE, LineBuffer


def test_a_line_waits_for_its_end() -> None:
    lines = LineBuffer()
    assert lines.feed(b"one\ntw") == ["one"]
    assert lines.feed(b"o\r\n\nthr") == ["two", ""]
    assert lines.flush() == ["thr"]
    assert lines.flush() == []


def test_a_letter_in_two_reads_stays_whole() -> None:
    lines = LineBuffer()
    first, second = "é\n".encode()[:1], "é\n".encode()[1:]
    assert lines.feed(first) == []
    assert lines.feed(second) == ["é"]


def test_a_line_without_an_end_is_cut() -> None:
    lines = LineBuffer()
    assert lines.feed(b"x" * LONGEST_LINE) == ["x" * LONGEST_LINE]
    assert lines.flush() == []


def test_bytes_that_are_no_text_are_shown() -> None:
    assert LineBuffer().feed(b"\xff!\n") == ["\ufffd!"]
