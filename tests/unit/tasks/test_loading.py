import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turnout.tasks.dags import DAG
from turnout.tasks.errors import DagFileError
from turnout.tasks.loading import load_file

Load = Callable[..., list[DAG]]

HEAD = "from turnout.tasks import DAG, BashOperator, EmptyOperator, PythonOperator, dag, task\n"


def test_dags_come_in_order_of_declaration_however_they_were_made(load: Load) -> None:
    dags = load(
        HEAD + "with DAG('second_name'):\n"
        "    EmptyOperator(task_id='x')\n"
        "@dag\n"
        "def made(): ...\n"
        "made()\n"
        "def factory(name): return DAG(name)\n"
        "factory('a'); z = factory('b')\n"
    )
    assert [dag.dag_id for dag in dags] == ["second_name", "made", "a", "b"]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("1 / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("raise ValueError\n", 2, "ValueError was raised."),
        ("raise ValueError('two\\nlines')\n", 2, "ValueError: two lines"),
        ("def broken(:\n    pass\n", 2, "SyntaxError: invalid syntax."),
        ("if True:\nx = 1\n", 3, "IndentationError: expected an indented block after 'if' statement on line 2."),
        (
            "import sys\nsys.exit(3)\n",
            3,
            "The file calls sys.exit(3) while it is loaded: a DAG file must only declare DAGs.",
        ),
        ("import nonesuch\n", 2, "No module named 'nonesuch': install it where DAG files are loaded"),
        (
            "from airflow.sdk import DAG\n",
            2,
            "No module named 'airflow': import DAG, task and operators from turnout.tasks.",
        ),
        (
            "from turnout.tasks.operators.bash import BashOperator\n",
            2,
            "No module named 'turnout.tasks.operators': import DAG, task and operators from turnout.tasks.",
        ),
        ("from turnout.tasks import Dag\n", 2, "cannot import name 'Dag'"),
        ("DAG('a b')\n", 2, "dag_id 'a b' may hold only letters"),
        ("DAG('x', shedule='@daily')\n", 2, "DAG 'x': DAG has no argument 'shedule': did you mean 'schedule'?"),
        ("DAG('x')\n\nDAG('x')\n", 4, "DAG 'x' is declared twice (first in line 2): dag_ids are unique, rename one."),
        (
            "with DAG('x'):\n    EmptyOperator(task_id='t')\n    EmptyOperator(task_id='t')\n",
            4,
            "DAG 'x', task 't': there is a task of this id already (line 3): task ids are unique in a DAG, rename one.",
        ),
        (
            "with DAG('x'):\n    a = EmptyOperator(task_id='a')\n    b = EmptyOperator(task_id='b')\n    a >> b >> a\n",
            2,
            "DAG 'x' has a cycle: ",
        ),
        (
            "EmptyOperator(task_id='t')\n",
            2,
            "Task 't' belongs to no DAG: declare it inside `with DAG(...)`, or pass dag=.",
        ),
        ("@dag\ndef flights(): ...\n", 2, "The @dag function flights() is never called: add flights() below it."),
        (
            "DAG('x', default_args={'retrys': 1})\n",
            2,
            "DAG 'x': default_args has no argument 'retrys': did you mean 'retries'?",
        ),
        ("d = DAG('x')\nd.test()\n", 3, "DAG 'x': call test() below `if __name__ == \"__main__\":`"),
        ("def deep(): deep()\ndeep()\n", 2, "RecursionError"),
        ("x = '\\ud800'\nraise ValueError(x)\n", 3, "ValueError: "),
    ],
)
def test_each_mistake_is_told_in_one_line_with_its_place(load: Load, source: str, line: int, words: str) -> None:
    with pytest.raises(DagFileError) as caught:
        load(HEAD + source)
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.line == line


def test_a_mistake_in_an_imported_module_is_told_at_the_import(load: Load, tmp_path: Path) -> None:
    (tmp_path / "broken_library.py").write_text("x = 1\n\ny = 1 / 0\n")
    with pytest.raises(DagFileError, match="ZeroDivisionError") as caught:
        load(HEAD + "import broken_library\n")
    assert caught.value.line == 2
    (tmp_path / "unreadable_library.py").write_text("def (\n")
    with pytest.raises(DagFileError, match=r"SyntaxError in .*unreadable_library.py, line 1: invalid syntax"):
        load(HEAD + "import unreadable_library\n")


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(DagFileError, match="The file cannot be read: No such file or directory"):
        load_file(tmp_path / "missing.py")
    path = tmp_path / "bytes.py"
    path.write_bytes(b"x = 'turnout dag \xff\xfe'\n")
    with pytest.raises(DagFileError, match="SyntaxError"):
        load_file(path)


def test_a_file_without_the_telltale_words_is_not_even_imported(load: Load) -> None:
    assert load("raise SystemExit('imported')\n") == []
    assert load("# about a dag\nraise SystemExit('imported')\n") == []


def test_a_file_of_airflow_is_told_what_to_change(load: Load) -> None:
    with pytest.raises(DagFileError, match="No module named 'airflow': import DAG, task and operators from turnout"):
        load("from airflow import DAG\n")


def test_a_library_that_declares_no_dag_is_no_mistake(load: Load) -> None:
    assert load(HEAD + "def helper(): ...\n") == []


def test_every_load_is_fresh_and_sees_the_latest_text(load: Load) -> None:
    (first,) = load(HEAD + "DAG('aa')\n")
    (second,) = load(HEAD + "DAG('bb')\n")
    (third,) = load(HEAD + "DAG('bb')\n")
    assert (first.dag_id, second.dag_id) == ("aa", "bb")
    assert third is not second


def test_a_file_may_import_from_its_folder_and_from_the_root(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "shared_by_all.py").write_text("NAME = 'all'\n")
    (tmp_path / "team" / "shared_by_team.py").write_text("NAME = 'team'\n")
    path = tmp_path / "team" / "pipeline.py"
    path.write_text(HEAD + "import shared_by_all, shared_by_team\nDAG(shared_by_all.NAME + shared_by_team.NAME)\n")
    (dag,) = load_file(path, root=tmp_path)
    assert dag.dag_id == "allteam"
    assert sys.path[:2] == [str(tmp_path / "team"), str(tmp_path)]
    before = list(sys.path)
    load_file(path, root=tmp_path)
    assert sys.path == before


def test_what_the_file_defines_can_be_pickled(load: Load) -> None:
    (dag,) = load(HEAD + "import pickle\nclass Row: pass\nDAG('p', description=str(len(pickle.dumps(Row()))))\n")
    assert dag.description


def test_a_failed_load_leaves_no_module_behind(load: Load) -> None:
    before = set(sys.modules)
    with pytest.raises(DagFileError):
        load(HEAD + "1 / 0\n")
    assert [name for name in set(sys.modules) - before if name.startswith("turnout_dag_file")] == []


@pytest.fixture(autouse=True)
def _path_as_before() -> object:
    before = list(sys.path)
    yield
    sys.path[:] = before
