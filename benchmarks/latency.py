"""From the end of a task to the start of the next one, on an idle system: forty tasks of fibo(10) in a row.

python -m benchmarks.latency [--repeats 5] [--schedulers 1]
"""

import argparse
from statistics import median

from benchmarks.rig import Rig, percentiles, report

STEPS = """
    SELECT extract(epoch FROM started_at - before) * 1000 AS gap,
           extract(epoch FROM scheduled_at - before) * 1000 AS decided,
           extract(epoch FROM queued_at - scheduled_at) * 1000 AS queued,
           extract(epoch FROM started_at - queued_at) * 1000 AS claimed,
           extract(epoch FROM ended_at - started_at) * 1000 AS executed
    FROM (
        SELECT *, lag(ended_at) OVER (ORDER BY started_at) AS before FROM task_instance WHERE dag_run_id = :run
    ) t WHERE before IS NOT NULL
"""
TOTAL = """
    SELECT extract(epoch FROM ended_at - queued_at) FROM dag_run WHERE id = :run
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("repeats", 5), ("schedulers", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with Rig(schedulers=options.schedulers) as rig:
        rig.run("fibonacci")  # warms up
        runs = [rig.run("fibonacci") for _ in range(options.repeats)]
        steps = [row for run in runs for row in rig.rows(STEPS, run=run)]
        totals = [float(rig.scalar(TOTAL, run=run)) for run in runs]
    results: dict[str, object] = {"whole run, s (median)": round(median(totals), 3)}
    for name in ("gap", "decided", "queued", "claimed", "executed"):
        results[f"{name}, ms"] = percentiles([float(row[name]) for row in steps])
    report("40 tasks in a row", {**rig.options, "repeats": options.repeats}, results)


if __name__ == "__main__":
    main()
