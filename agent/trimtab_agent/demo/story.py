"""The acts of the day that are not the cluster's own: a GPU breaks, a person raises a limit, another asks too much.

Each act starts a real command or a real fault, waits for it without holding up the day, and reads its result from
AWS, the stack's state or the journal.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from trimtab_agent.demo.fleet import Fleet
from trimtab_agent.demo.measure import Facts, Sample, replaced
from trimtab_agent.demo.world import GROUP, STACK, World
from trimtab_agent.reconciler.journal import Entry, Journal

BROKEN_INDEX = 3
HIGHER_MAX = 8
BAD_ROLE = "helpful-admin"
BAD_PROGRAM = f"""
from trimtab.resources import Role
import json
everything = {{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Action": "*", "Resource": "*"}}]}}
trust = {{"Version": "2012-10-17", "Statement": [
    {{"Effect": "Allow", "Principal": {{"AWS": "arn:aws:iam::123456789012:root"}}, "Action": "sts:AssumeRole"}}]}}
Role("{BAD_ROLE}", assume_role_policy=json.dumps(trust), policy=json.dumps(everything))
"""
LOCKED = "currently locked"
REPLACE = "replace-failed-node"


class Story:
    """The acts, each at its time and once."""

    def __init__(self, world: World, fleet: Fleet, journal: Journal, facts: Facts) -> None:
        self._world = world
        self._fleet = fleet
        self._journal = journal
        self.facts = facts
        self._human: subprocess.Popen[bytes] | None = None
        self._preview: subprocess.Popen[bytes] | None = None
        self._told: set[tuple[str, str, str | None]] = set()

    @property
    def is_over(self) -> bool:
        """True when every act has its result."""
        return bool(self.facts.replaced_wall is not None and self.facts.human and self.facts.policy)

    def tick(self, sample: Sample, wall_clock: float) -> list[str]:
        """Move every act on; the sentences that there are to tell. `wall_clock` is when the day began (epoch)."""
        return [
            *self._journal_news(sample, wall_clock),
            *self._break_a_gpu(sample),
            *self._watch_replacement(sample),
            *self._raise_max(sample),
            *self._ask_too_much(sample),
        ]

    def _event(self, sample: Sample, words: str) -> None:
        self.facts.events.append((sample.hour, words))

    def _break_a_gpu(self, sample: Sample) -> list[str]:
        busy = sorted({each.node for each in self._fleet.scheduler.running} & set(sample.in_service))
        if self.facts.broken is not None or len(sample.in_service) < 2 or not busy:
            return []
        node = busy[0]
        self.facts.broken, self.facts.injected_wall = node, sample.wall
        self.facts.seen_at_injection = frozenset(self._fleet.reports) | frozenset(sample.in_service)
        self._fleet.break_gpu(node, BROKEN_INDEX)
        self._event(sample, "GPU falls off the bus")
        jobs = sum(each.node == node for each in self._fleet.scheduler.running)
        return [f"GPU {BROKEN_INDEX} of {node} falls off the bus (Xid 79) under {jobs} running jobs"]

    def _journal_news(self, sample: Sample, wall_clock: float) -> list[str]:
        """What the reconciler did, in its own words from the journal."""
        sentences = []
        for entry in reversed(self._journal.entries(limit=30)):
            key = (entry.round, entry.kind, entry.instance)
            if key in self._told or entry.outcome is None:
                continue
            self._told.add(key)
            if entry.kind == "Cordon" and entry.rule == REPLACE and entry.instance == self.facts.broken:
                self.facts.cordoned_wall = entry.intent_at.timestamp() - wall_clock
                self._event(sample, "found, cordoned")
            sentences.append(told(entry))
        return sentences

    def _watch_replacement(self, sample: Sample) -> list[str]:
        if self.facts.replaced_wall is not None or not replaced(self.facts, sample):
            return []
        self.facts.replaced_wall = sample.wall
        self._event(sample, "node replaced")
        return [f"{self.facts.broken} is gone and a fresh node serves in its place"]

    def _raise_max(self, sample: Sample) -> list[str]:
        """A person raises `max` by `pulumi up` while the reconciler works; a busy lock makes them try again."""
        if self.facts.human.get("exit") is not None or self.facts.cordoned_wall is None:
            return []
        if self._human is None:
            self.facts.human.update(self._numbers("before"), max_wanted=HIGHER_MAX)
            checkout = self._checkout("human")
            self._world.write_config(checkout, high=HIGHER_MAX)
            command = ["pulumi", "--non-interactive", "up", "--yes", "--skip-preview", "--stack", STACK]
            (self._world.folder / "human.log").unlink(missing_ok=True)
            self._human = self._world.start(command, log="human.log", cwd=checkout)
            return []
        if self._human.poll() is None:
            return []
        code, words = self._human.returncode, (self._world.folder / "human.log").read_text(errors="replace")
        if code and LOCKED in words:
            self._human = None
            return []
        return self._human_done(sample, code)

    def _human_done(self, sample: Sample, code: int) -> list[str]:
        """Their change reaches the reconciler's own checkout, as a merged pull request would."""
        self._world.write_config(self._world.project, high=HIGHER_MAX)
        self.facts.human.update(self._numbers("after"), exit=code, state_desired_after=self._state_desired())
        human = self.facts.human
        self._event(sample, f"a person sets max to {HIGHER_MAX}")
        return [
            (
                f"a person raises max {human['max_before']} -> {human['max_after']} with `pulumi up`; "
                f"desired was {human['desired_before']} and is {human['desired_after']}"
            )
        ]

    def _numbers(self, when: str) -> dict[str, Any]:
        group = self._world.group()
        return {f"max_{when}": group.max_size, f"desired_{when}": group.desired}

    def _state_desired(self) -> int:
        state = json.loads(self._world.pulumi(self._world.project, "stack", "export", "--stack", STACK))
        found = next(
            each
            for each in state["deployment"]["resources"]
            if each["type"] == "trimtab:aws:AutoScalingGroup" and each["urn"].endswith(f"::{GROUP}")
        )
        desired: int = found["inputs"]["desired"]
        return desired

    def _ask_too_much(self, sample: Sample) -> list[str]:
        """Somebody proposes an administrator role in a preview; the policy pack has the last word."""
        if self.facts.policy or self.facts.human.get("exit") is None:
            return []
        log = self._world.folder / "preview.log"
        if self._preview is None:
            arguments = ["preview", "--stack", STACK, "--policy-pack", str(self._world.source / "policies")]
            command = ["pulumi", "--non-interactive", "--color", "never", *arguments]
            self._preview = self._world.start(command, log=log.name, cwd=self._proposal())
            return []
        if self._preview.poll() is None:
            return []
        words = log.read_text(errors="replace")
        named = "mandatory" in words.lower() and BAD_ROLE in words
        self.facts.policy.update(exit=self._preview.returncode, named=named, role_exists=self._role_exists())
        self._event(sample, "admin role refused")
        refused = next((line.strip() for line in words.splitlines() if "mandatory" in line.lower()), "refused")
        return [f"somebody proposes the role {BAD_ROLE}; the preview fails: {refused}"]

    def _checkout(self, name: str) -> Path:
        """A person's own copy of the project."""
        folder = self._world.folder / name
        shutil.copytree(self._world.project, folder, dirs_exist_ok=True)
        return folder

    def _proposal(self) -> Path:
        """The project as somebody's branch would have it."""
        folder = self._checkout("proposal")
        with (folder / "__main__.py").open("a", encoding="utf-8") as program:
            program.write(BAD_PROGRAM)
        return folder

    def _role_exists(self) -> bool:
        state = self._world.pulumi(self._world.project, "stack", "export", "--stack", STACK)
        return f"::{BAD_ROLE}" in state


def told(entry: Entry) -> str:
    """A journal entry as narration."""
    what = {
        "SetDesired": f"sets desired to {entry.desired}",
        "Retire": f"retires {entry.instance}",
        "Cordon": f"cordons and drains {entry.instance}" if entry.rule == REPLACE else f"closes {entry.instance}",
        "Uncordon": f"returns {entry.instance}",
    }[entry.kind]
    how = "" if entry.outcome == "done" else f" [{entry.outcome}]"
    return f"the reconciler {what}: {entry.sentence}{how}"
