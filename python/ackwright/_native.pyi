"""The compiled half of the package."""

from collections.abc import Callable
from typing import Any, final

PROGRAM: str

@final
class Table:
    """Rows and columns of a result.

    Any library that knows the Arrow PyCapsule interface reads it: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``.
    """

    @property
    def columns(self) -> list[str]:
        """Names, from left to right."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: str | int) -> Any:
        """The values of a column, or a row as a dict."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict a row."""

    def select(self, column: str, value: object) -> Table:
        """The rows with this value."""

    def csv(self) -> str:
        """The same as CSV."""

    def parquet(self) -> bytes:
        """The bytes of a Parquet file."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Draft:
    @staticmethod
    def load(path: str) -> Draft: ...
    @staticmethod
    def parse(name: str, text: str) -> Draft: ...
    @staticmethod
    def toml_of(value: object) -> str: ...
    def copy(self) -> Draft: ...
    def set(self, path: str, value: object, label: str) -> None: ...
    def sweep(self, axis: str, steps: object, label: str) -> None: ...
    def draw(self, path: str, from_: object, label: str) -> None: ...
    def get(self, path: str) -> tuple[Any] | None: ...
    def remove(self, path: str) -> bool: ...
    def finish(self) -> Checked: ...

@final
class Checked:
    """An experiment that has been read and is valid."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def repetitions(self) -> int: ...
    @property
    def duration(self) -> float:
        """Seconds."""

    @property
    def axes(self) -> list[str]: ...
    @property
    def points(self) -> list[list[tuple[str, str]]]: ...
    def explain(self, flow: str, point: int, seed: int | None) -> str: ...
    def run(
        self,
        seed: int | None,
        repetitions: int | None,
        jobs: int,
        threads: int,
        out: str | None,
        resume: bool,
        keep: bool,
        progress: Callable[[float, int, float], object] | None,
    ) -> tuple[Runs, BaseException | None]: ...

@final
class Runs:
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def axes(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def metrics(self) -> Table: ...
    def summary(self) -> Table: ...
    def flows(self) -> Table: ...
    def distributions(self) -> Table: ...
    def series_names(self) -> list[str]: ...
    def series(self, name: str) -> Table: ...
    def report(self) -> tuple[list[str], list[list[str]]]: ...
    def summary_json(self) -> str: ...
    def runs(self) -> list[dict[str, Any]]: ...

def drill(
    paths: list[str],
    text: str | None,
    versions: list[str],
    flags: list[tuple[str, str | None]],
    jobs: int,
) -> tuple[dict[str, Any], str]: ...
def replay(
    capture: str,
    qdiscs: list[str],
    rate: str | None,
    from_: str | None,
    to: str | None,
    interface: str | None,
    seed: int,
    partial: bool,
    out: str | None,
) -> tuple[dict[str, Any], str]: ...
def ecmp(
    flows: str,
    routes: str,
    routes_name: str,
    fail: list[str],
    policy: str | None,
    seed: int | None,
) -> dict[str, Any]: ...
def tc(commands: list[str]) -> tuple[list[dict[str, Any]], str]: ...
