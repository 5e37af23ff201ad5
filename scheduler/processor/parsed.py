"""What came of parsing one DAG file."""

from dataclasses import dataclass, field

from turnout.metadata.dags import DeclaredDag, ImportProblem
from turnout.scheduler.processor.folder import Stamp


@dataclass(frozen=True)
class ParsedFile:
    """The DAGs that a file declares, or why it cannot be loaded.

    Attributes:
        dags: what it declares, in that order.
        problem: why it cannot be loaded; then there are no DAGs.
        imported: the other files of the DAGs folder that it needs, by their path in the folder.
        is_stuck: whether it ran out of time.
    """

    dags: tuple[DeclaredDag, ...] = ()
    problem: ImportProblem | None = None
    imported: frozenset[str] = field(default=frozenset())
    is_stuck: bool = False


@dataclass(frozen=True)
class Parse:
    """A parse that has ended.

    Attributes:
        file: the path of the file in the DAGs folder.
        stamp: the file's stamp from before the parse.
        result: what came of it.
    """

    file: str
    stamp: Stamp
    result: ParsedFile
