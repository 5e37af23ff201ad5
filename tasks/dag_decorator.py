"""`@dag`: a function whose body declares a DAG."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Unpack, overload

from turnout.tasks.dags import DAG, DagArgs
from turnout.tasks.declaring import caller, collecting
from turnout.tasks.errors import DagError
from turnout.tasks.references import DagParam

P = ParamSpec("P")


@overload
def dag(dag_id: Callable[P, Any], /) -> Callable[P, DAG]: ...
@overload
def dag(
    dag_id: str | None = None, /, **arguments: Unpack[DagArgs]
) -> Callable[[Callable[P, Any]], Callable[P, DAG]]: ...
@overload
def dag(*, dag_id: str, **arguments: Unpack[DagArgs]) -> Callable[[Callable[P, Any]], Callable[P, DAG]]: ...
def dag(dag_id: Any = None, **arguments: Any) -> Any:
    """Turn a function into one that declares a DAG each time it is called.

    The arguments of the function become params of the DAG; its docstring becomes `doc_md`.

    Args:
        dag_id: the DAG's name; that of the function by default.
        arguments: as for `DAG`.
    """
    if callable(dag_id):
        return _declaring_function(dag_id, dag_id.__name__, {})
    return lambda function: _declaring_function(function, dag_id or function.__name__, arguments)


def _declaring_function(function: Callable[P, Any], dag_id: str, arguments: dict[str, Any]) -> Callable[P, DAG]:
    signature = inspect.signature(function)
    place = caller()
    if (declarations := collecting()) is not None:
        declarations.uncalled[function.__name__] = place

    @functools.wraps(function)
    def declare(*args: P.args, **kwargs: P.kwargs) -> DAG:
        if (declarations := collecting()) is not None:
            declarations.uncalled.pop(function.__name__, None)
        given = {"doc_md": function.__doc__ and inspect.cleandoc(function.__doc__), **arguments}
        params = {**(given.pop("params", None) or {}), **_bind(signature, function.__name__, args, kwargs)}
        with DAG(dag_id, params=params, **given) as declared:
            body: Callable[..., Any] = function
            body(**{name: DagParam(name) for name in signature.parameters})
        return declared

    return declare


def _bind(signature: inspect.Signature, name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise DagError(f"The @dag function {name}() was called wrongly: {error}.") from None
    bound.apply_defaults()
    return dict(bound.arguments)
