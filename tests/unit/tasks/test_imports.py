import subprocess
import sys

import pytest

HEAVY = ["jinja2", "croniter", "pydantic", "sqlalchemy", "celery", "subprocess", "asyncio"]


@pytest.mark.parametrize("statement", ["import turnout.tasks", "from turnout.tasks.loading import load_file"])
def test_importing_the_vocabulary_loads_nothing_heavy(statement: str) -> None:
    # A time limit would depend on the machine; what takes the time are these packages.
    code = f"import sys; before = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in HEAVY if name in loaded] == []
    assert len(loaded) < 120
