"""The names that templates and task functions know, as in Airflow."""

#: Known only where the run has a logical date or a data interval.
DATED_NAMES = frozenset(
    {
        "data_interval_end",
        "data_interval_start",
        "ds",
        "ds_nodash",
        "logical_date",
        "task_instance_key_str",
        "ts",
        "ts_nodash",
        "ts_nodash_with_tz",
    }
)

#: Every name that `context.build_context` may give.
TEMPLATE_NAMES = DATED_NAMES | {
    "dag",
    "dag_run",
    "macros",
    "map_index",
    "params",
    "run_id",
    "task",
    "task_instance",
    "test_mode",
    "ti",
    "try_number",
}
