"""Keeps the newest N history entries of a file backend: every update writes two full copies of the state, for ever."""

from __future__ import annotations

from pathlib import Path

from trimtab_agent.reconciler.locks import file_backend


def prune(backend: str | None, project: str, stack: str, keep: int) -> int:
    """Remove all but the newest `keep` history entries and backups of a stack; the number of files removed."""
    root = file_backend(backend)
    if root is None:
        return 0
    folders = (root / "history" / project / stack, root / "backups" / project / stack)
    return sum(_prune_folder(folder, keep) for folder in folders)


def _prune_folder(folder: Path, keep: int) -> int:
    """One entry may be several files that share the time in their name."""
    files = sorted(folder.glob("*.json*")) if folder.is_dir() else []
    entries = sorted({file.name.split(".")[0] for file in files}, key=lambda name: name.rsplit("-", 1)[-1])
    kept = frozenset(entries[-keep:])
    gone = [file for file in files if file.name.split(".")[0] not in kept]
    for file in gone:
        file.unlink(missing_ok=True)
    return len(gone)
