"""The compiled half of the package."""

from collections.abc import Callable
from typing import Any, final, overload

PROGRAM: str

State = tuple[str, str, list[tuple[str, str, str, str]]]
"""Name and text of an experiment, and its edits: kind, path, value, label."""

@final
class Table:
    """Rows and columns of a result.

    Any library that knows the Arrow PyCapsule interface reads it: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)`` (pandas 3, with pyarrow).
    """

    @property
    def columns(self) -> list[str]:
        """Names, from left to right."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> Table: ...
    @overload
    def __getitem__(self, key: str | int, /) -> Any:
        """The values of a column, a row as a dict, or a table of some rows."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict a row."""

    def select(self, column: str, value: object) -> Table:
        """The rows with this value."""

    @staticmethod
    def of_columns(columns: list[tuple[str, str, list[Any]]]) -> Table: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of it, with every version of pandas."""

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` of it."""

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
    def state(self) -> State: ...
    @staticmethod
    def of_state(state: State) -> Draft: ...
    def congestion_control(self, name: str, class_: type[object], version: str) -> None: ...

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
    def collect(
        self, seed: int | None, repetitions: int | None, out: str, resume: bool
    ) -> Collection: ...
    def make_run(
        self, point: int, repetition: int, seed: int | None, out: str
    ) -> list[str]: ...
    def run(
        self,
        seed: int | None,
        repetitions: int | None,
        jobs: int,
        threads: int,
        out: str | None,
        resume: bool,
        keep: bool,
        view: bool,
        progress: Callable[[float, int, float], object] | None,
    ) -> tuple[Runs, BaseException | None]: ...

@final
class Collection:
    def __len__(self) -> int: ...
    def missing(self) -> list[tuple[int, int]]: ...
    def add_run(self, point: int, repetition: int) -> bool: ...
    def finish(self) -> Runs: ...

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
def view(what: str, port: int) -> Viewer: ...
def export(what: str, file: str) -> int: ...

@final
class Viewer:
    """A page that is served on this machine, until it is closed."""

    @property
    def url(self) -> str:
        """The address, with the token without which nothing is answered."""

    def close(self) -> None:
        """Ends it."""

@final
class Window:
    """The congestion window of a connection."""

    cwnd: int
    """The window, in segments."""
    ssthresh: int
    """Slow start ends here, in segments."""
    pacing_rate: int | None
    """Bytes a second; ``None``: unlimited. A class with ``on_sample`` sets it."""

    @property
    def prior_cwnd(self) -> int:
        """The window before the latest reduction."""

    @property
    def is_cwnd_limited(self) -> bool:
        """The flow uses the window that it has, so that it may grow."""

    @property
    def in_slow_start(self) -> bool:
        """The window is below the threshold."""

    def slow_start(self, acked: int) -> int:
        """A segment more for each one acknowledged, up to the threshold; what is left of them."""

    def additive_increase(self, per_increase: int, acked: int) -> None:
        """A segment more for every ``per_increase`` acknowledged."""

@final
class Ack:
    """What is known of a connection when an ACK comes."""

    @property
    def now_us(self) -> int:
        """Virtual time in µs."""

    @property
    def mss(self) -> int:
        """Payload of a full segment, in bytes."""

    @property
    def packets_in_flight(self) -> int: ...
    @property
    def srtt_us(self) -> int | None:
        """Smoothed round-trip time."""

    @property
    def min_rtt_us(self) -> int | None:
        """Lowest round-trip time of the last minutes."""

    @property
    def delivered(self) -> int:
        """Packets delivered in all."""

    @property
    def delivered_ce(self) -> int:
        """Of those, with CE."""

    @property
    def lost(self) -> int:
        """Packets marked lost in all."""

@final
class Sample:
    """A sample of the delivery rate."""

    @property
    def delivered(self) -> int | None:
        """Packets delivered over the interval; ``None``: the sample is not valid."""

    @property
    def interval_us(self) -> int: ...
    @property
    def rtt_us(self) -> int | None: ...
    @property
    def losses(self) -> int:
        """Packets newly marked lost."""

    @property
    def acked_sacked(self) -> int:
        """Packets newly acknowledged, also by SACK."""

    @property
    def prior_in_flight(self) -> int: ...
    @property
    def is_app_limited(self) -> bool: ...
