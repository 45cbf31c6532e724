"""Node agents: their reports, and the orders that only they can carry out. Silence is an answer of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from trimtab.model.errors import AgentUnreachableError, SettingsError
from trimtab.model.health import NodeReport
from trimtab.model.health_wire import report_from_json
from trimtab_agent.reconciler.settings import Settings
from trimtab_agent.reconciler.sources import bounded
from trimtab_agent.reconciler.sources.aws import SeenInstance

AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Answer:
    """One agent's report, or why there is none."""

    report: NodeReport | None
    problem: str | None = None


class Agents:
    """All agents that discovery knows."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = httpx.Client(timeout=settings.timeout.total_seconds(), trust_env=False)

    def close(self) -> None:
        """Give back connections."""
        self._client.close()

    def reports(self, instances: Sequence[SeenInstance]) -> dict[str, Answer]:
        """One answer for each instance, asked for all at once."""
        addresses = self.addresses(instances)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda each: self._report(each.instance_id, addresses.get(each.instance_id)), instances)
            return {each.instance_id: answer for each, answer in zip(instances, answers, strict=True)}

    def addresses(self, instances: Sequence[SeenInstance]) -> dict[str, str]:
        """Base URLs by instance id: Prometheus's file_sd format, or private addresses."""
        if self._settings.discovery_file is not None:
            return file_targets(self._settings)
        port = self._settings.agent_port
        return {each.instance_id: f"http://{each.private_ip}:{port}" for each in instances if each.private_ip}

    def _report(self, identity: str, address: str | None) -> Answer:
        if address is None:
            return Answer(None, "discovery knows no agent for it")
        try:
            answer = bounded.get(self._client, f"{address}/v1/report", self._settings.timeout).raise_for_status()
            report = report_from_json(answer.json())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Answer(None, f"{address}: {error or type(error).__name__}")
        except (ValueError, RecursionError) as error:
            return Answer(None, f"{address}: not a report: {error}")
        if report.instance_id != identity:
            return Answer(None, f"{address}: the agent speaks for {report.instance_id}, not for {identity}")
        return Answer(report)

    def order(self, address: str, verb: str, body: Mapping[str, Any]) -> None:
        """Send a fenced order (`cordon`, `uncordon`) to one agent.

        Raises:
            AgentUnreachableError: it did not answer, or refused.
        """
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            self._client.post(f"{address}/v1/{verb}", json=dict(body), headers=headers).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AgentUnreachableError(f"{verb} at {address}: {error or type(error).__name__}") from error

    def _token(self) -> str:
        path = self._settings.token_file
        if path is None:
            raise SettingsError("agents.token_file is not set, and agents take orders only with a token")
        try:
            return path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise SettingsError(f"agents.token_file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(f"agents.token_file {path}: a token is ASCII") from error


def file_targets(settings: Settings) -> dict[str, str]:
    """Base URLs by instance id from the discovery file; without the file nobody is known.

    Raises:
        SettingsError: the file cannot be read, or is not in Prometheus's file_sd format.
    """
    path = settings.discovery_file
    if path is None:
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {each["labels"]["instance_id"]: f"http://{each['targets'][0]}" for each in entries}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"agents.file {path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise SettingsError(f"agents.file {path}: not in file_sd format ({error})") from error
