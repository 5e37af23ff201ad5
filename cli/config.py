"""`turnout config`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from turnout.cli.commands import command_group
from turnout.cli.errors import ChecksFailedError
from turnout.cli.options import Output, OutputOption
from turnout.cli.output import show_page
from turnout.cli.reachable import Check, check_broker, check_database, check_log_store
from turnout.config.settings import Section, Settings, load_settings, variable_name
from turnout.config.urls import without_password
from turnout.metadata.listings.page import Page

app = command_group()


@dataclass(frozen=True)
class Option:
    """A setting as it is in force."""

    section: str  # empty at the top level
    key: str
    value: str | int | float | bool
    source: str  # environment, turnout.toml or default
    variable: str


@app.command()
def show(output: OutputOption = Output.TABLE) -> None:
    """Show the settings in force, and where each comes from; passwords are masked."""
    page = Page(list(_options(load_settings())), is_cut=False)
    show_page(page, ("section", "key", "value", "source"), output, empty="")


@app.command()
def check(output: OutputOption = Output.TABLE) -> None:
    """Check the settings, and that database, broker and log store can be used. Exits with 1 when one cannot."""
    settings = load_settings()
    checks = [
        Check("settings", "ok", f"home {settings.home}"),
        check_database(settings),
        check_broker(settings),
    ]
    if settings.logs_url is not None:
        checks.append(check_log_store(settings.logs_url.get_secret_value()))
    show_page(Page(checks, is_cut=False), ("name", "state", "detail"), output, empty="")
    failed = [check.detail for check in checks if check.state == "failed"]
    if failed:
        raise ChecksFailedError(" ".join(failed))


def _options(settings: Settings) -> Iterator[Option]:
    effective: dict[str, Any] = {
        "database_url": settings.database,
        "broker_url": settings.broker,
        "dags_folder": settings.dags_path,
        "logs_folder": settings.logs_path,
    }
    for key in Settings.model_fields:
        value = effective.get(key, getattr(settings, key))
        if isinstance(value, Section):
            for inner in type(value).model_fields:
                yield _option(value, (key, inner), getattr(value, inner))
        else:
            yield _option(settings, (key,), value)


def _option(section: Section, path: tuple[str, ...], value: Any) -> Option:
    *sections, key = path
    variable = variable_name(path)
    is_set = key in section.model_fields_set and key != "home"  # the home is never taken from its own file
    source = "environment" if variable in os.environ else "turnout.toml" if is_set else "default"
    return Option(".".join(sections), key, _plain(value), source, variable)


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return without_password(value.get_secret_value())
    return str(value) if isinstance(value, Path) else value
