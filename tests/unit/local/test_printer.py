import io
import json
import os

from turnout.cli.local.printer import Printer


def test_names_are_padded_to_the_longest() -> None:
    stream = io.StringIO()
    printer = Printer(["worker-1", "dag-processor"], stream=stream, colour=False)
    printer.write("worker-1", "ready")
    printer.say("stopping")
    assert stream.getvalue() == "worker-1      | ready\nturnout       | stopping\n"


def test_each_name_has_its_colour_on_a_terminal() -> None:
    stream = io.StringIO()
    printer = Printer(["a", "b"], stream=stream, colour=True)
    printer.write("a", "x")
    printer.write("b", "x")
    first, second = stream.getvalue().splitlines()
    assert first.startswith("\x1b[36m")
    assert second.startswith("\x1b[32m")
    assert first.endswith("\x1b[0m x")


def test_output_for_programs_is_json_on_every_line() -> None:
    stream = io.StringIO()
    printer = Printer(["a"], stream=stream, as_json=True, colour=True)
    printer.banner(["Turnout"])
    printer.write("a", '{"event": "x"}')
    printer.write("a", "Traceback")
    printer.say("stopping")
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert events == [
        {"event": "x"},
        {"process": "a", "event": "Traceback"},
        {"process": "turnout", "event": "stopping"},
    ]


def test_a_closed_screen_is_noticed_and_not_an_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream:
        printer = Printer(["a"], stream=stream, colour=False)
        printer.write("a", "x")
        assert printer.is_closed
        printer.write("a", "y")
