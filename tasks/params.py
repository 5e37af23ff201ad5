"""The params of a DAG or task: JSON values by name, which a run may override by its conf."""

from collections.abc import Mapping
from typing import Any

from turnout.tasks.errors import DagError, XComError
from turnout.tasks.xcom import encode


def check_params(params: Any) -> dict[str, Any]:
    """Return a copy of params.

    Raises:
        DagError: they are not a dict of names and JSON values.
    """
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise DagError(f"params must be a dict of names and values, not {params!r}.")
    for name, value in params.items():
        try:
            encode(value)
        except XComError as error:
            raise DagError(f"The param {name!r} cannot be kept. {error}".replace("he result", "he value")) from None
    return dict(params)
