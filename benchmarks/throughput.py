"""No-op tasks per second through the whole platform, beside what the same Celery worker does with bare no-op tasks.

python -m benchmarks.throughput [--repeats 3] [--slots 4] [--schedulers 1]
"""

import argparse
import subprocess
import sys
import time
from statistics import median

import redis
from celery import Celery

from benchmarks.dags.noop import WIDTH
from benchmarks.rig import RUN_S, Rig, report, stop, wait_for

#: A broker database that Turnout does not use.
BARE_DB = 1
QUEUE = "bare"


def bare_app(socket: str) -> Celery:
    """Make a Celery app that does nothing but Celery."""
    app = Celery("bare", broker=f"redis+socket://{socket}?virtual_host={BARE_DB}")
    app.conf.update(task_ignore_result=True, worker_send_task_events=True, worker_prefetch_multiplier=1)
    app.conf.update(task_default_queue=QUEUE, worker_hijack_root_logger=False)

    @app.task(name="nothing")  # type: ignore[untyped-decorator]
    def nothing() -> None:
        """Do nothing."""

    return app


def bare(socket: str, slots: int, repeats: int) -> list[float]:
    """Measure bare Celery: tasks per second from the first publication until nothing is left at the broker."""
    app, client = bare_app(socket), redis.Redis(unix_socket_path=socket, db=BARE_DB)
    code = f"from benchmarks.throughput import bare_app; bare_app({socket!r}).Worker(concurrency={slots}).start()"
    worker = subprocess.Popen([sys.executable, "-c", code])
    rates = []
    try:
        for _ in range(repeats + 1):
            start = time.monotonic()
            with app.producer_pool.acquire() as producer:
                for _ in range(WIDTH):
                    app.tasks["nothing"].apply_async(producer=producer)
            wait_for(lambda: not client.llen(QUEUE) and not client.hlen("unacked"), RUN_S)
            rates.append(WIDTH / (time.monotonic() - start))
    finally:
        stop(worker)
        client.close()
    return rates[1:]  # the first one warms up


def whole(rig: Rig, repeats: int) -> list[float]:
    """Measure Turnout: tasks per second from the start of the run to the last committed outcome."""
    rates = []
    for _ in range(repeats + 1):
        seconds = rig.scalar(
            "SELECT extract(epoch FROM max(t.ended_at) - min(r.started_at)) "
            "FROM task_instance t JOIN dag_run r ON r.id = t.dag_run_id WHERE r.id = :run",
            run=rig.run("noop"),
        )
        rates.append(WIDTH / float(seconds))
    return rates[1:]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("repeats", 3), ("slots", 4), ("schedulers", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with Rig(schedulers=options.schedulers, slots=options.slots) as rig:
        ours = whole(rig, options.repeats)
        socket = rig.servers.broker_url.removeprefix("redis+socket://")
        theirs = bare(socket, options.slots, options.repeats)
    report(
        f"{WIDTH} no-op tasks",
        {**rig.options, "repeats": options.repeats},
        {
            "turnout tasks/s": [round(rate) for rate in ours],
            "bare Celery tasks/s": [round(rate) for rate in theirs],
            "ratio of medians": round(median(ours) / median(theirs), 2),
        },
    )


if __name__ == "__main__":
    main()
