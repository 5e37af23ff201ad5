from pathlib import Path

from turnout.config.embedded import MAX_FOLDER_BYTES, embedded_broker_url, embedded_database_url, embedded_folder


def test_the_sockets_are_in_the_home() -> None:
    assert embedded_folder(Path("/home/ada/turnout")) == Path("/home/ada/turnout/servers")


def test_a_home_with_a_long_path_has_its_sockets_elsewhere_and_its_own() -> None:
    first, second = embedded_folder(Path("/h/" + "ä" * 60)), embedded_folder(Path("/h/" + "ö" * 60))
    assert first != second
    assert all(len(str(folder).encode()) <= MAX_FOLDER_BYTES for folder in (first, second))
    assert embedded_folder(Path("/h/" + "ä" * 60)) == first


def test_the_urls_quote_what_a_path_may_contain() -> None:
    home = Path("/home/a b?c")
    assert embedded_database_url(home) == "postgresql://turnout@/turnout?host=/home/a%20b%3Fc/servers"
    assert embedded_broker_url(home) == "redis+socket:///home/a%20b%3Fc/servers/valkey.sock"
