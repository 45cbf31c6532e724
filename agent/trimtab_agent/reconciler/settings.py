"""Everything that may be set, as one frozen value: trimtab.toml, overridden by the command line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimtab.model.errors import DeclarationError, SettingsError
from trimtab.model.wire import Fields

FILE = "trimtab.toml"
MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are and how long to wait for them; docs/settings.md explains each key."""

    project: Path
    stack: str
    policy_pack: Path | None
    policy_config: Path | None
    journal: str
    discovery: str = "private-ip"
    discovery_file: Path | None = None
    agent_port: int = 9400
    token_file: Path | None = None
    timeout: timedelta = timedelta(seconds=2)
    prometheus_url: str | None = None
    queue_url: str | None = None
    region: str | None = None
    history_kept: int = 50


def load(project: Path, stack: str | None = None, file: Path | None = None) -> Settings:
    """Read the settings of a project folder.

    Raises:
        SettingsError: naming the file and the key.
    """
    path = file or project / FILE
    if not (project / "Pulumi.yaml").exists():
        raise SettingsError(
            f"{project.resolve()} holds no Pulumi.yaml",
            hint="Run trimtab in the project's folder, or give --project.",
        )
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() or file else {}
        return parse(raw, project.resolve(), stack)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    except DeclarationError as error:
        raise SettingsError(f"{path}: {error}") from error


def parse(raw: Mapping[str, Any], project: Path, stack: str | None) -> Settings:
    """Settings from parsed TOML; raises DeclarationError naming the key."""
    top = Fields(raw, "")
    tables = {
        name: Fields({} if top.raw(name) is None else top.raw(name), name)
        for name in ("project", "engine", "agents", "prometheus", "queue", "journal")
    }
    top.done()
    named = stack or os.environ.get("TRIMTAB_STACK") or tables["project"].optional_text("stack")
    tables["project"].raw("stack")
    if named is None:
        raise DeclarationError("project.stack", "no stack is named; give --stack, set TRIMTAB_STACK, or write it here")
    settings = Settings(
        project=project,
        stack=named,
        policy_pack=_policy_pack(tables["engine"], project),
        policy_config=_path(tables["engine"], "policy_config", project),
        journal=tables["journal"].text("url", default_journal(project, named)),
        region=tables["engine"].optional_text("region"),
        history_kept=tables["engine"].whole("history_kept", 50, least=1),
        prometheus_url=_url(tables["prometheus"]),
        queue_url=_url(tables["queue"]),
    )
    settings = _with_agents(settings, tables["agents"], project)
    for table in tables.values():
        table.done()
    return settings


def _with_agents(settings: Settings, fields: Fields, project: Path) -> Settings:
    found = replace(
        settings,
        discovery=fields.text("discovery", "private-ip"),
        discovery_file=_path(fields, "file", project),
        agent_port=_port(fields),
        token_file=_path(fields, "token_file", project),
        timeout=fields.seconds("timeout_seconds", timedelta(seconds=2)),
    )
    if not found.timeout:
        raise fields.refuse("timeout_seconds", "more than 0")
    if found.discovery not in {"private-ip", "file"}:
        raise fields.refuse("discovery", "private-ip or file")
    if (found.discovery == "file") != (found.discovery_file is not None):
        raise DeclarationError("agents.file", "give a file if, and only if, discovery is file")
    return found


def _policy_pack(fields: Fields, project: Path) -> Path | None:
    """The declared pack, else the project's own `policies`, else none."""
    declared = _path(fields, "policy_pack", project)
    own = project / "policies"
    return declared or (own if (own / "PulumiPolicy.yaml").exists() else None)


def _path(fields: Fields, key: str, project: Path) -> Path | None:
    text = fields.optional_text(key)
    return None if text is None else project / Path(text).expanduser()


def _port(fields: Fields) -> int:
    port = fields.whole("port", 9400, least=1)
    if port > MOST_PORT:
        raise fields.refuse("port", f"at most {MOST_PORT}")
    return port


def _url(fields: Fields) -> str | None:
    text = fields.optional_text("url")
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # half an IPv6 address, or a port that is none
        is_one = False
    if not is_one:
        raise fields.refuse("url", "an http or https URL")
    return text.rstrip("/")


def default_journal(project: Path, stack: str) -> str:
    """One journal for each project and stack, in the user's state folder, from whichever checkout it is reconciled."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return f"sqlite:///{base / 'trimtab' / f'{project_name(project)}-{stack}.db'}"


def project_name(project: Path) -> str:
    """The name in Pulumi.yaml, which tells stacks apart; the folder's name where the file has none."""
    file = project / "Pulumi.yaml"
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    found = re.search(r"""^[\s{]*["']?name["']?\s*:\s*["']?([\w.-]+)""", text, re.MULTILINE)
    return found[1] if found else project.name
