"""Builds the NVML double into the user's cache folder, once for each version of its source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_double.c")
NAME = "libnvidia-ml.so.1"


class CompilerMissingError(Exception):
    """There is no C compiler to build the double with."""


def library() -> Path:
    """The built library; its folder goes into LD_LIBRARY_PATH so that unmodified pynvml finds it.

    Raises:
        CompilerMissingError: neither `cc`, `gcc` nor `clang` is on PATH.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "trimtab" / "nvml" / hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    if not (folder / NAME).exists():
        folder.mkdir(parents=True, exist_ok=True)
        compile_into(folder)
    return folder / NAME


def compile_into(folder: Path) -> None:
    """Compile beside the final place and move the whole file there, so that two builders never meet."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise CompilerMissingError("a C compiler is needed for the NVML double; Debian: apt install gcc libc6-dev")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        built = Path(scratch) / NAME
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(built), str(SOURCE)], check=True)
        built.rename(folder / NAME)
