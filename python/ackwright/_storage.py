"""Where results gather: a folder, or any storage that fsspec knows."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from uuid import uuid4

from ackwright.errors import OutputError

_LIST = ".ackwright-files"
_RECORDS = "runs/"
_NEEDED = "series/"


class Storage(Protocol):
    """Takes the files of runs. It is sent to other processes, and may be used by many at a time."""

    def put(self, source: Path, names: list[str]) -> None:
        """Copies files of a folder, one after the other; whoever looks never sees half of one."""


@dataclass(frozen=True)
class Folder:
    """A folder that all processes see under the same name."""

    path: str

    def put(self, source: Path, names: list[str]) -> None:
        """Copies files."""
        for name in names:
            target = Path(self.path) / name
            # Twice the same run at the same time must not meet in one file.
            aside = target.with_name(f".{target.name}.{uuid4().hex}.part")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, aside)
                os.replace(aside, target)
            except OSError as error:
                with suppress(OSError):
                    aside.unlink(missing_ok=True)
                text = f"cannot write {target}: {error.strerror}"
                raise OutputError(text, error.errno, str(target)) from None


@dataclass(frozen=True)
class Remote:
    """A folder behind a URL of fsspec."""

    url: str

    def _open(self) -> tuple[Any, PurePosixPath]:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            text = f"{self.url} needs fsspec: pip install 'ackwright[ray]'"
            raise ImportError(text) from error
        fs, root = url_to_fs(self.url)
        return fs, PurePosixPath(root)

    def put(self, source: Path, names: list[str]) -> None:
        """Copies files; a run's record comes last, and says that the others are whole."""
        fs, root = self._open()
        for name in names:
            target = root / name
            try:
                fs.makedirs(str(target.parent), exist_ok=True)
                fs.put_file(str(source / name), str(target))
            except OSError as error:
                text = f"cannot write {self.url}: {name}: {error.strerror or error}"
                raise OutputError(text, error.errno, f"{self.url}/{name}") from None

    def get(self, name: str, target: Path) -> bool:
        """Fetches a file; false if there is none."""
        fs, root = self._open()
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            fs.get_file(str(root / name), str(target))
        except FileNotFoundError:
            return False
        return True

    def lengths(self) -> dict[str, int]:
        """All files, and how long they are."""
        fs, root = self._open()
        try:
            found: dict[str, dict[str, Any]] = fs.find(str(root), detail=True)
        except FileNotFoundError:
            return {}
        return {
            str(PurePosixPath(name).relative_to(root)): about["size"] or 0
            for name, about in found.items()
        }

    def length(self, name: str) -> int | None:
        """How long a file is; nothing if there is none."""
        fs, root = self._open()
        try:
            length: int | None = fs.size(str(root / name))
        except FileNotFoundError:
            return None
        return length

    def remove(self, name: str) -> None:
        """Removes a file."""
        fs, root = self._open()
        fs.rm_file(str(root / name))


class Desk(Protocol):
    """The folder at which results are put together."""

    folder: str

    def fetch(self, files: list[str], *, whole: bool) -> None:
        """Brings the files of a run here: those that pictures need if ``whole``."""

    def begun(self) -> None:
        """What had to go is gone from the folder."""

    def close(self) -> None:
        """What was written stays."""


@dataclass
class Here:
    """The storage is a folder: nothing need be brought."""

    folder: str

    def fetch(self, files: list[str], *, whole: bool) -> None:
        """Nothing to do."""

    def begun(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


@dataclass
class Staged:
    """A temporary folder that stands for a remote one.

    Of most files of runs it has only names and lengths, as files of zeros without blocks: putting results
    together needs the records, which tell lengths, and the series of the first repetitions.
    """

    remote: Remote
    _there: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ackwright-")
        self.folder = self._temporary.name
        lengths = self.remote.lengths()
        self._there = set(lengths)
        for name, length in lengths.items():
            if name == _LIST or name.startswith((_RECORDS, _NEEDED)):
                self.remote.get(name, self._path(name))
            else:
                self._stand_in(name, length)

    def _path(self, name: str) -> Path:
        return Path(self.folder) / name

    def _stand_in(self, name: str, length: int) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(length)

    def fetch(self, files: list[str], *, whole: bool) -> None:
        """Brings records, and series where they are needed; of all else names and lengths."""
        for name in files:
            if name.startswith(_RECORDS) or (whole and name.startswith(_NEEDED)):
                self.remote.get(name, self._path(name))
            elif (length := self.remote.length(name)) is not None:
                self._stand_in(name, length)
            self._there.add(name)

    def begun(self) -> None:
        """Removes there what is gone here, and says there which files are ours."""
        for name in sorted(self._there):
            if not self._path(name).exists():
                self.remote.remove(name)
                self._there.discard(name)
        self.remote.put(Path(self.folder), [_LIST])

    def close(self) -> None:
        """Puts there what was written here."""
        written = [
            str(path.relative_to(self.folder))
            for path in sorted(Path(self.folder).rglob("*"))
            if path.is_file()
        ]
        new = [name for name in written if name not in self._there and name != _LIST]
        self.remote.put(Path(self.folder), [*new, _LIST])
        self._temporary.cleanup()


def where(out: str) -> tuple[Storage, Desk]:
    """Where workers put their files, and where the results are put together."""
    if "://" not in out:
        path = os.path.abspath(out)
        return Folder(path), Here(path)
    scheme, _, rest = out.partition("://")
    if scheme in ("file", "local"):
        return Folder(os.path.abspath(rest)), Here(os.path.abspath(rest))
    remote = Remote(out.rstrip("/"))
    return remote, Staged(remote)
