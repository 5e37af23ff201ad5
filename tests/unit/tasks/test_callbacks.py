"""Callbacks as authors declare them, and what they are told."""

from typing import Any, ClassVar

import pytest

from turnout.tasks import DAG, AppriseNotifier, BaseNotifier, Context, EmptyOperator, TaskSkipped, task
from turnout.tasks.apprise_notifier import NotificationError
from turnout.tasks.callbacks import events_of
from turnout.tasks.errors import DagError, TemplateError
from turnout.tasks.serialization import serialize


def noop(_context: Context) -> None:
    """A callback."""


async def later(_context: Context) -> None:
    """One that would never be awaited."""


class Told(BaseNotifier):
    """Keeps what it was told."""

    template_fields: ClassVar[list[str]] = ["message"]

    def __init__(self, message: str) -> None:
        self.message = message
        self.told: list[str] = []

    def notify(self, context: Context) -> None:  # noqa: ARG002  the template has used it
        self.told.append(self.message)


def test_events_are_those_that_have_callbacks_and_are_part_of_the_version() -> None:
    with DAG("d", schedule=None, on_failure_callback=noop, default_args={"on_retry_callback": [noop, noop]}) as dag:
        one = EmptyOperator(task_id="one", on_success_callback=noop)
        EmptyOperator(task_id="two", on_retry_callback=None)
    assert events_of(dag) == ["failure"]
    assert events_of(one) == ["retry", "success"]
    content = serialize(dag)
    assert content["callbacks"] == ["failure"]
    assert {name: spec["callbacks"] for name, spec in content["tasks"].items()} == {
        "one": ["retry", "success"],
        "two": [],
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tell", r"on_failure_callback must be a function that takes the context, or a list .* not 'tell'\."),
        ([noop, None], r"on_failure_callback must be a function"),
        ({noop: 1}, r"on_failure_callback must be a function"),
        (Told, r"on_failure_callback needs an object: Told\(…\), not the class itself\."),
        (later, r"on_failure_callback must be a plain function, not an async one"),
    ],
)
def test_what_is_no_callback_is_refused_where_it_is_declared(given: Any, message: str) -> None:
    with pytest.raises(DagError, match=rf"^DAG 'd': {message}"):
        DAG("d", schedule=None, on_failure_callback=given)
    with DAG("d", schedule=None), pytest.raises(DagError, match=rf"^DAG 'd', task 't': {message}"):
        EmptyOperator(task_id="t", on_failure_callback=given)


def test_a_dag_has_no_callback_for_what_only_tasks_do() -> None:
    with pytest.raises(DagError, match="DAG has no argument 'on_retry_callback'"):
        DAG("d", schedule=None, on_retry_callback=noop)  # type: ignore[arg-type]


def test_the_queue_of_callbacks_is_not_for_tasks() -> None:
    with DAG("d", schedule=None), pytest.raises(DagError, match="queue='callbacks' is kept for callbacks"):
        EmptyOperator(task_id="t", queue="callbacks")


def test_a_trial_calls_back_as_workers_do() -> None:
    told: list[tuple[str, str | None, str, str | None]] = []

    def on(event: str) -> Any:
        def tell(context: Context) -> None:
            ti = context.get("ti")
            subject = context["dag_run"] if ti is None else ti
            told.append((event, getattr(ti, "task_id", None), subject.state, context.get("exception")))

        return tell

    every: dict[str, Any] = {f"on_{e}_callback": on(e) for e in ("execute", "failure", "retry", "skipped", "success")}
    with DAG("d", schedule=None, default_args=every, on_failure_callback=on("failure")) as dag:

        @task(retries=1)
        def fails() -> None:
            raise ValueError("no")

        @task
        def skips() -> None:
            raise TaskSkipped("not today")

        fails()
        skips()
    dag.test()
    assert [(event, name, state) for event, name, state, _ in told] == [
        ("execute", "fails", "running"),
        ("retry", "fails", "up_for_retry"),
        ("execute", "fails", "running"),
        ("failure", "fails", "failed"),
        ("execute", "skips", "running"),
        ("skipped", "skips", "skipped"),
        ("failure", None, "failed"),
    ]
    errors = [exception and exception.partition(" (")[0] for *_, exception in told]
    assert errors == [None, "ValueError: no", None, "ValueError: no", None, None, None]


def test_a_callback_that_raises_is_told_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    told = Told("{{ ti.task_id }} of {{ dag.dag_id }}")

    def breaks(_context: Context) -> None:
        raise KeyError("channel")

    with DAG("d", schedule=None) as dag:
        EmptyOperator(task_id="t", on_success_callback=[breaks, told])
    with caplog.at_level("INFO", "turnout"):
        result = dag.test()
    assert result.state == "success"
    assert "The on_success_callback failed: " in caplog.text
    assert "breaks: KeyError: 'channel'" in caplog.text


def test_a_notifier_renders_its_templates_each_time_anew() -> None:
    said: list[str] = []

    class Says(Told):
        def notify(self, context: Context) -> None:  # noqa: ARG002
            said.append(self.message)

    notifier = Says("{{ ti.task_id }}")
    with DAG("d", schedule=None, default_args={"on_success_callback": notifier}) as dag:
        EmptyOperator(task_id="a") >> EmptyOperator(task_id="b")
    dag.test()
    assert said == ["a", "b"]


def test_a_template_of_a_notifier_that_cannot_be_rendered_names_it() -> None:
    with pytest.raises(TemplateError, match="The template in message of notifier Told cannot be rendered: 'nobody' is"):
        Told("{{ nobody }}")({"ti": None})


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Python's own module, which Apprise imports
@pytest.mark.parametrize("url", ["", "nonsense", "nosuch://s3cret"])
def test_an_url_that_apprise_does_not_know_is_named_without_its_secret(url: str) -> None:
    with pytest.raises(NotificationError, match="Apprise does not understand URL 1 of 1") as refused:
        AppriseNotifier(urls=url, body="b")({})
    assert "s3cret" not in str(refused.value)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_what_an_url_holds_is_kept_out_of_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("turnout.tasks.apprise_notifier.mask_secret", masked.extend)
    notifier = AppriseNotifier(urls=["json://ann:pass@127.0.0.1:1/to/ken?key=k3y"], body="b")
    with pytest.raises(NotificationError, match=r"could not deliver to json://… \(URL 1 of 1\)"):
        notifier({})
    assert masked == ["json://ann:pass@127.0.0.1:1/to/ken?key=k3y", "pass", "to/ken", "key=k3y"]
