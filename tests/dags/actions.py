"""What a scripted task can do; the DAG files beside this one use it.

Every start and every end of an attempt is appended to the ledger, a file of JSON lines, by the task itself: it is the
judge of what has really run.
"""

import contextlib
import faulthandler
import gc
import json
import locale
import logging.config
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnout.tasks import TaskFailed, TaskSkipped, get_current_context, mask_secret

HOUR = 3600
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
MEGABYTE = 1 << 20
#: What a task leaves behind in its process.
kept: list[Any] = []


def record(event: str) -> None:
    """Append to the ledger; a line is one write, so that processes may share the file."""
    context = get_current_context()
    ti = context["ti"]
    line = {
        "event": event,
        "attempt_id": ti.attempt_id,
        "dag_id": ti.dag_id,
        "run_id": ti.run_id,
        "task_id": ti.task_id,
        "map_index": ti.map_index,
        "pid": os.getpid(),
        "time": time.time(),
    }
    fd = os.open(context["params"]["ledger"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, (json.dumps(line) + "\n").encode())
    finally:
        os.close(fd)


def next_action() -> str:
    """Choose the action of this attempt by how many the task has started in this run before."""
    context = get_current_context()
    ti, params = context["ti"], context["params"]
    script = params.get("script", {})
    actions = script.get(ti.task_id, script.get("*", ["succeed"]))
    path = Path(params["ledger"])
    text = path.read_text() if path.exists() else ""
    # What follows the last line break is being written by another process at this moment.
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    before = sum((line["event"], line["run_id"], line["task_id"]) == ("start", ti.run_id, ti.task_id) for line in lines)
    return str(actions[min(before, len(actions) - 1)])


def perform(action: str) -> Any:
    """Do one thing: a verb, and its argument after a colon."""
    verb, _, argument = action.partition(":")
    return ACTIONS[verb](argument)


def hold_mb(count: str) -> None:
    """Allocate memory, touch it, and hold it."""
    held = bytearray(int(count) * MEGABYTE)
    held[::4096] = b"x" * len(held[::4096])
    hang()


def kill_with_mb(count: str) -> None:
    """Allocate memory, touch it, and be killed by SIGKILL."""
    held = bytearray(int(count) * MEGABYTE)
    held[::4096] = b"x" * len(held[::4096])
    kill_itself("SIGKILL")


def burn(_argument: str) -> None:
    """Keep a processor busy until ended."""
    try:
        while True:
            pass
    finally:
        record("burnt")


def burn_for(seconds: str) -> None:
    """Use so much CPU time."""
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        pass


def surroundings(_argument: str) -> dict[str, Any]:
    """Tell the folder, and variables that a task may have set."""
    own = {name: value for name, value in os.environ.items() if name.startswith("OWN_")}
    return {"folder": str(Path.cwd()), "own": own, "pid": os.getpid()}


def skip(reason: str) -> None:
    """End as skipped."""
    raise TaskSkipped(reason)


def fail(reason: str) -> None:
    """Fail, to be tried again."""
    raise RuntimeError(reason or "as the script says")


def fail_for_good(reason: str) -> None:
    """Fail, not to be tried again."""
    raise TaskFailed(reason)


def kill_itself(name: str) -> None:
    """Send a signal to this process, and wait for it."""
    os.kill(os.getpid(), signal.Signals[name])
    hang()


def hang(_argument: str = "") -> None:
    """Hang until ended."""
    time.sleep(HOUR)


def hang_and_tell(_argument: str) -> None:
    """Hang until ended, and write that down."""
    try:
        hang()
    except BaseException:
        record("stopped")
        raise


def ignore_sigterm(_argument: str) -> None:
    """Hang, whatever is raised here."""
    while True:
        try:
            hang()
        except BaseException as error:  # noqa: BLE001
            print(f"ignored {error!r}")  # noqa: T201


def wait_for(path: str) -> None:
    """Wait until a file is there."""
    while not Path(path).exists():
        time.sleep(0.01)


def wait_for_writer(path: str) -> None:
    """Wait until somebody opens a pipe to write into it; hundreds may wait so, at no cost."""
    Path(path).open("rb").close()


def wait_and_fail(path: str) -> None:
    """Wait until a file is there, and fail."""
    wait_for(path)
    fail("")


def print_megabytes(count: str) -> None:
    """Print a lot."""
    for number in range(int(count) * MEGABYTE // 100):
        print(f"{number:099}")  # noqa: T201


def say_and_hang(text: str) -> None:
    """Print something, and hang until ended."""
    print(text)  # noqa: T201
    hang()


def flood_and_wait(path: str) -> None:
    """Write three megabytes below Python, as a subprocess does, and wait until a file is there."""
    os.write(1, b"down the drain\n" * (3 * MEGABYTE // 15))
    wait_for(path)


def tell_secret(secret: str) -> None:
    """Say a secret in every way there is, fail with it, and never keep it."""
    mask_secret(secret)
    print(f"printed {secret}")  # noqa: T201
    subprocess.run(["echo", f"echoed {secret}"], check=True)
    raise RuntimeError(f"failed with {secret}")


def leave_daemon(path: str) -> None:
    """Leave a daemon behind, which has left its session, its parent and every signal but one; write down its pid."""
    code = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    code += "print(os.getpid(), file=open(sys.argv[1], 'a'), flush=True); time.sleep(3600)"
    subprocess.run(["setsid", "--fork", sys.executable, "-c", code, path], check=True)
    wait_for(path)


def leave_daemon_and_exit(path: str) -> None:
    """Start a daemon and end this process by itself."""
    leave_daemon(path)
    os._exit(3)


def leave_daemon_and_hang(path: str) -> None:
    """Leave a daemon behind, and hang, whatever is raised here."""
    leave_daemon(path)
    ignore_sigterm("")


def leave_daemon_and_die(path: str) -> None:
    """Leave a daemon behind, and be killed."""
    leave_daemon(path)
    kill_itself("SIGKILL")


def silence() -> None:
    """Configure logging so that nothing is said any more."""
    logging.config.dictConfig({"version": 1, "root": {"level": "CRITICAL", "handlers": []}})
    logging.getLogger("turnout.task").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    logging.getLogger("asyncio").propagate = False
    logging.disable(logging.CRITICAL)


def silence_and_fail(reason: str) -> None:
    """Fail after nothing is said any more."""
    silence()
    fail(reason)


def soil(folder: str) -> None:
    """Change all that this process has to change, and leave it so."""
    os.chdir(folder)
    os.umask(0o777)
    os.environ["SOILED"] = "yes"
    del os.environ["PATH"]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    for timer in TIMERS:
        signal.setitimer(timer, HOUR)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    os.kill(os.getpid(), signal.SIGUSR2)  # waits now, and would end the process later
    locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C")
    resource.setrlimit(resource.RLIMIT_NOFILE, (99, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.environ = {}  # noqa: B003
    sys.argv = None  # type: ignore[assignment]
    sys.setrecursionlimit(99_999)
    gc.disable()
    warnings.simplefilter("error")
    socket.setdefaulttimeout(0.000_001)
    faulthandler.dump_traceback_later(HOUR, exit=True)
    silence()
    threading.Thread(target=hang, name="left-behind", daemon=True).start()


def worker_socket() -> socket.socket:
    """Connect to the worker's main process, as the child that runs this does."""
    client = next(found for found in gc.get_objects() if type(found).__name__ == "ChannelClient")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(client._assignment.channel)
    return connection


def send_to_worker(frame: str) -> str:
    """Send something of one's own (hexadecimal) to the worker's main process; return what it answers."""
    with worker_socket() as connection:
        with contextlib.suppress(OSError):  # it may hang up before all has arrived
            connection.sendall(bytes.fromhex(frame))
        with contextlib.suppress(ConnectionError):
            return connection.recv(4096)[4:].decode("latin-1")
    return ""


def pull_unaskable(_argument: str) -> Any:
    """Ask for the result of a task whose name the database cannot have."""
    return pull("no\0task")


def crowd(count: str) -> None:
    """Connect to the worker's main process very often."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(count) + 100,) * 2)
    connections = [worker_socket() for _ in range(int(count))]
    for connection in connections:
        connection.close()


class UnspeakableError(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def fail_unspeakably(_argument: str) -> None:
    """Raise what cannot be shown."""
    raise UnspeakableError


def interrupt(_argument: str) -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


def renice(_argument: str) -> None:
    """Become less urgent, which not everybody can undo."""
    os.nice(5)


def niceness(_argument: str) -> int:
    """Tell how urgent this process is."""
    return os.nice(0)


def spoil(_argument: str) -> None:
    """Take away what is needed to put this process in order."""
    locale.setlocale = None  # type: ignore[assignment]


def close_descriptors(folder: str) -> None:
    """Close all descriptors of this process, and open files in their place."""
    os.closerange(3, 4096)
    kept.extend(os.open(Path(folder, f"file-{number}"), os.O_WRONLY | os.O_CREAT) for number in range(50))


def state(_argument: str) -> dict[str, Any]:
    """Tell the state of this process that a task could change."""
    mask = os.umask(0)
    os.umask(mask)
    return {
        "pid": os.getpid(),
        "folder": str(Path.cwd()),
        "umask": mask,
        "environ": sorted(os.environ.items()),
        "handlers": [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGUSR1)][1:],
        "timers": [signal.getitimer(timer)[0] for timer in TIMERS],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "locale": locale.setlocale(locale.LC_ALL),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "argv": sys.argv,
        "interpreter": [sys.getrecursionlimit(), gc.isenabled(), str(warnings.filters), socket.getdefaulttimeout()],
        "logging": [logging.root.manager.disable, *map(_logger, ("", "turnout.task", "asyncio"))],
    }


def _logger(name: str) -> list[Any]:
    logger = logging.getLogger(name)
    return [name, logger.level, logger.disabled, logger.propagate, [str(type(handler)) for handler in logger.handlers]]


def fork_and_fail_there(reason: str) -> str:
    """Fork, and fail in the copy only."""
    copy = os.fork()
    if copy == 0:
        fail(reason)
    os.waitpid(copy, 0)
    return "from the original"


def fork_and_return(_argument: str) -> None:
    """Fork, and return in both processes."""
    os.fork()


def pull(task_id: str) -> Any:
    """Return the result of another task."""
    return get_current_context()["ti"].xcom_pull(task_ids=task_id)


def turnout_environ(_argument: str) -> dict[str, str]:
    """Return what this process knows of our settings."""
    return {name: value for name, value in os.environ.items() if name.startswith("TURNOUT_")}


def open_sockets(_argument: str) -> list[str]:
    """Return the sockets that this process has open."""
    return [link for link in map(_target, Path("/proc/self/fd").iterdir()) if link.startswith("socket:")]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # the descriptor of the listing itself
        return ""


ACTIONS: dict[str, Callable[[str], Any]] = {
    "succeed": lambda result: result or None,
    "return_bytes": lambda count: "x" * int(count),
    "hold_mb": hold_mb,
    "kill_with_mb": kill_with_mb,
    "burn": burn,
    "burn_for": burn_for,
    "surroundings": surroundings,
    "skip": skip,
    "fail": fail,
    "fail_for_good": fail_for_good,
    "sys_exit": lambda code: sys.exit(int(code)),
    "os_exit": lambda code: os._exit(int(code)),
    "signal": kill_itself,
    "hang": hang,
    "hang_and_tell": hang_and_tell,
    "ignore_sigterm": ignore_sigterm,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "wait_for": wait_for,
    "wait_for_writer": wait_for_writer,
    "wait_and_fail": wait_and_fail,
    "allocate_mb": lambda count: len(bytearray(int(count) * MEGABYTE)),
    "print_mb": print_megabytes,
    "say_and_hang": say_and_hang,
    "flood_and_wait": flood_and_wait,
    "tell_secret": tell_secret,
    "leave_daemon": leave_daemon,
    "leave_daemon_and_die": leave_daemon_and_die,
    "leave_daemon_and_hang": leave_daemon_and_hang,
    "leave_daemon_and_exit": leave_daemon_and_exit,
    "fail_unspeakably": fail_unspeakably,
    "interrupt": interrupt,
    "soil": soil,
    "spoil": spoil,
    "renice": renice,
    "niceness": niceness,
    "close_descriptors": close_descriptors,
    "send_to_worker": send_to_worker,
    "crowd": crowd,
    "pull_unaskable": pull_unaskable,
    "state": state,
    "fork_and_return": fork_and_return,
    "fork_and_fail_there": fork_and_fail_there,
    "silence_and_fail": silence_and_fail,
    "pull": pull,
    "environ": turnout_environ,
    "sockets": open_sockets,
}


def act() -> Any:
    """Run one attempt."""
    action = next_action()
    record("start")
    result = perform(action)
    record("end")
    return result
