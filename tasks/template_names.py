"""The names that templates and task functions know, as in Airflow."""

#: Known only where the run has a logical date or a data interval.
DATED_NAMES = frozenset(
    """
    ds ds_nodash ts ts_nodash ts_nodash_with_tz logical_date data_interval_start data_interval_end
    task_instance_key_str
    """.split()
)

#: Every name that `context.build_context` may give.
TEMPLATE_NAMES = DATED_NAMES | frozenset(
    "conf dag dag_run macros map_index params run_id task task_instance test_mode ti try_number".split()
)
