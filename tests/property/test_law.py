"""Random DAGs, outcomes, clears, marks, retries, deaths and time, against a plain model of the whole law."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from pydantic import SecretStr
from sqlalchemy import Engine

from tests.control import Control
from tests.property.machine import LawMachine
from tests.property.stand_ins import Chance
from tests.property.stories import STORIES
from turnout.config.settings import SchedulerSettings, Settings

pytestmark = pytest.mark.usefixtures("patient_reaper")

#: So many examples without a story take some 20 s, and a tenth of them with each story as much again. `make
#: test-property` asks for more, of which no two runs are the same.
EXAMPLES = int(os.environ.get("TURNOUT_TEST_EXAMPLES", "0"))


def profile(story: str) -> settings:
    examples = EXAMPLES or 30
    return settings(
        max_examples=examples if story == "none" else math.ceil(examples / 10),
        stateful_step_count=40,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("story", STORIES)
def test_whatever_happens_the_database_holds_what_the_law_says(
    story: str, engine: Engine, database_url: str, tmp_path: Path
) -> None:
    scheduler = SchedulerSettings(max_infra_retries=1, message_patience_s=600, sweep_interval_s=3600)
    given = Settings(
        home=tmp_path, database_url=SecretStr(database_url), broker_url=SecretStr("redis://"), scheduler=scheduler
    )
    control, chance = Control(engine), Chance(engine)
    run_state_machine_as_test(lambda: LawMachine(control, given, chance, STORIES[story]), settings=profile(story))
