"""Who makes the runs of a sweep: this process, several, or the machines of a Ray cluster.

A task is one run: experiment, point and seed. It writes its files to storage that all see, its record
last, and returns the record's name; what is written is the same, byte by byte, whoever makes it.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ackwright import _native, _storage, progress as bars
from ackwright.errors import Interrupted, OutputError, RunError, attach
from ackwright.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ackwright.experiment import Experiment

Place = tuple[int, int]
"""A run: the place of its point in the sweep, and its repetition."""


@dataclass(frozen=True)
class Job:
    """What all tasks of a sweep share."""

    experiment: bytes
    """Pickled."""
    seed: int | None
    storage: _storage.Storage


@dataclass(frozen=True)
class Done:
    """A task that has come to its end."""

    files: list[str]
    """What it has written, its record last."""
    seconds: float
    """How long the run took, without writing its files."""


class Lost(Exception):
    """A worker was lost so often that its task was given up."""


class Executor(Protocol):
    """Does tasks in any order. ``executor=`` of ``Experiment.run`` takes one."""

    def run(
        self, job: Job, places: Sequence[Place]
    ) -> Iterator[tuple[Place, Done | BaseException]]:
        """Yields each place when its task has ended: what it did, or why it failed."""


def perform(job: Job, place: Place) -> Done:
    """A task."""
    checked = _experiment(job.experiment)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ackwright-") as scratch:
        files = checked.make_run(*place, job.seed, scratch)
        seconds = time.perf_counter() - begun
        job.storage.put(Path(scratch), files)
    return Done(files, seconds)


@lru_cache(maxsize=4)
def _experiment(pickled: bytes) -> _native.Checked:
    """Reading an experiment of thousands of points takes longer than many a run."""
    experiment: Experiment = pickle.loads(pickled)
    return experiment.check()


def _pickled(experiment: Experiment, executor: Executor) -> bytes:
    """By value where that is possible: classes of a notebook are nowhere else."""
    with suppress(ImportError):
        pickler = import_module("ray.cloudpickle" if isinstance(executor, Ray) else "cloudpickle")
        pickled: bytes = pickler.dumps(experiment)
        return pickled
    return pickle.dumps(experiment)


@dataclass(frozen=True)
class Serial:
    """One run after the other, in this process."""

    def run(
        self, job: Job, places: Sequence[Place]
    ) -> Iterator[tuple[Place, Done | BaseException]]:
        """As of ``Executor``."""
        for place in places:
            try:
                yield place, perform(job, place)
            except Exception as error:
                yield place, error


@dataclass(frozen=True)
class Processes:
    """Several processes on this machine. A process that dies costs a retry.

    As with ``multiprocessing``, a script that uses them needs ``if __name__ == "__main__":``.
    """

    workers: int = 0
    """How many; 0: one for each processor."""
    retries: int = 3
    """How often a task is tried again after a process was lost."""

    def run(
        self, job: Job, places: Sequence[Place]
    ) -> Iterator[tuple[Place, Done | BaseException]]:
        """As of ``Executor``."""
        from concurrent.futures.process import BrokenProcessPool

        left = dict.fromkeys(places, self.retries)
        while left:
            for place, done in self._once(job, list(left)):
                if not isinstance(done, BrokenProcessPool):
                    del left[place]
                    yield place, done
                elif left[place] > 0:
                    left[place] -= 1
                else:
                    del left[place]
                    yield place, Lost(f"its process died {self.retries + 1} times")

    def _once(
        self, job: Job, places: Sequence[Place]
    ) -> Iterator[tuple[Place, Done | BaseException]]:
        """With one pool, until a process of it dies: then only what was begun comes back."""
        import multiprocessing
        from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
        from concurrent.futures.process import BrokenProcessPool

        workers = self.workers or len(os.sched_getaffinity(0))
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_ignore_ctrl_c)
        waiting = list(reversed(places))
        begun: dict[Future[Done], Place] = {}
        broken = False
        try:
            while (waiting and not broken) or begun:
                while waiting and not broken and len(begun) < 2 * workers:
                    place = waiting.pop()
                    begun[pool.submit(perform, job, place)] = place
                ended, _ = wait(begun, return_when=FIRST_COMPLETED)
                for future in ended:
                    error = future.exception()
                    broken = broken or isinstance(error, BrokenProcessPool)
                    yield begun.pop(future), future.result() if error is None else error
        finally:
            if begun:
                for process in list((pool._processes or {}).values()):
                    process.terminate()
            pool.shutdown(cancel_futures=True)


def _ignore_ctrl_c() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(frozen=True)
class Ray:
    """The machines of a Ray cluster; needs ``ackwright[ray]``, on its workers too.

    Without a cluster it begins one on this machine, and ends it afterwards.
    """

    address: str | None = None
    """The cluster; without it that of ``RAY_ADDRESS``, or a new one on this machine."""
    retries: int = 3
    """How often a task is tried again after its worker was lost."""
    cpus: float = 1
    """What a task takes of a machine."""
    pending: int = 1000
    """How many tasks the cluster knows of at a time."""

    def run(
        self, job: Job, places: Sequence[Place]
    ) -> Iterator[tuple[Place, Done | BaseException]]:
        """As of ``Executor``."""
        try:
            import ray
        except ImportError as error:
            text = "executor 'ray' needs Ray: pip install 'ackwright[ray]'"
            raise ImportError(text) from error
        ours = not ray.is_initialized()
        if ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False)
        begun: dict[Any, Place] = {}
        try:
            # Only what kills a worker is tried again: what a run says of itself it would say again.
            task = ray.remote(num_cpus=self.cpus, max_retries=self.retries)(perform)
            shared = ray.put(job)
            waiting = list(reversed(places))
            while waiting or begun:
                while waiting and len(begun) < self.pending:
                    place = waiting.pop()
                    begun[task.remote(shared, place)] = place
                ray.wait(list(begun), num_returns=1, fetch_local=False)
                ended, _ = ray.wait(list(begun), num_returns=len(begun), timeout=0)
                for one in ended:
                    yield begun.pop(one), _outcome(ray, one)
        finally:
            for one in begun:
                ray.cancel(one, force=True)
            if ours:
                ray.shutdown()


def _outcome(ray: Any, one: Any) -> Done | BaseException:
    try:
        done: Done = ray.get(one)
        return done
    except ray.exceptions.RayTaskError as error:
        cause: BaseException = error.cause
        return cause
    except ray.exceptions.RayError as error:
        return Lost(str(error).partition("\n")[0])


_BY_NAME: dict[str, Callable[[], Executor]] = {"serial": Serial, "process": Processes, "ray": Ray}


def named(executor: str | Executor) -> Executor:
    """An executor by its name: ``"serial"``, ``"process"``, ``"ray"``.

    >>> named("process")
    Processes(workers=0, retries=3)
    """
    if not isinstance(executor, str):
        if isinstance(executor, type) or not callable(getattr(executor, "run", None)):
            raise TypeError(f"executor: {', '.join(_BY_NAME)}, or an object that has run(), not {executor!r}")
        return executor
    if executor not in _BY_NAME:
        raise ValueError(f"no executor is called {executor!r}; valid are {', '.join(_BY_NAME)}")
    return _BY_NAME[executor]()


def run(
    experiment: Experiment,
    executor: Executor,
    *,
    out: str | PathLike[str],
    seed: int | None,
    repetitions: int | None,
    resume: bool,
    progress: bool | Callable[[float, int, float], object] | None,
) -> Results:
    """Has an executor make all runs that are not there yet, and puts the results together."""
    pickled = _pickled(experiment, executor)
    checked = experiment.check()
    storage, desk = _storage.where(fspath(out))
    collection = checked.collect(seed, repetitions, desk.folder, resume)
    desk.begun()
    job = Job(pickled, seed, storage)
    bar = None if callable(progress) else bars.begin(progress)
    told = progress if callable(progress) else bar
    sweep = _Sweep(collection, desk, checked.duration, told)
    problem: BaseException | None = None
    try:
        problem = sweep.follow(executor, job)
    except BaseException as error:
        problem = error
    finally:
        if bar is not None:
            bar.close()
    finished = collection.finish()
    folder = fspath(out)
    results = Results(finished, None if "://" in folder else folder)
    desk.close()
    if problem is None:
        return results
    rest = f"{len(results)} of {sweep.runs} runs are finished"
    if isinstance(problem, KeyboardInterrupt):
        problem = Interrupted(rest)
    elif isinstance(problem, Lost):
        problem = RunError(f"{problem}; {rest}")
    attach(problem, results)
    raise problem


class _Sweep:
    """A sweep on its way."""

    def __init__(
        self,
        collection: _native.Collection,
        desk: _storage.Desk,
        duration: float,
        told: Callable[[float, int, float], object] | None,
    ) -> None:
        self._collection = collection
        self._desk = desk
        self._duration = duration
        self._told = told
        self._missing = collection.missing()
        self.runs = len(collection)

    def follow(self, executor: Executor, job: Job) -> BaseException | None:
        """Takes in each run when it is there. A lost task does not keep others from being made."""
        lost: BaseException | None = None
        done = finished = self.runs - len(self._missing)
        with closing(executor.run(job, self._missing)) as outcomes:  # type: ignore[type-var]
            for place, outcome in outcomes:
                done += 1
                if isinstance(outcome, Lost):
                    lost = lost or outcome
                elif isinstance(outcome, BaseException):
                    return outcome
                else:
                    self._desk.fetch(outcome.files, whole=place[1] == 0)
                    if not self._collection.add_run(*place):
                        name = outcome.files[-1]
                        return OutputError(f"{name} was written, and is not there", None, name)
                    finished += 1
                if self._told is not None:
                    self._told(float(done), self.runs, finished * self._duration)
        return lost


__all__ = ["Done", "Executor", "Job", "Lost", "Place", "Processes", "Ray", "Serial", "named"]
