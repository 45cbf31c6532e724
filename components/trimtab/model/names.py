"""Names: what a URN says, and what is derived from it. Deterministic, so that an interrupted run finds its own work."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

TAG_VALUE_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Urn:
    """The parts of a Pulumi URN, ``urn:pulumi:STACK::PROJECT::PARENTS$TYPE::NAME``."""

    stack: str
    project: str
    type: str
    name: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Urn:
        """Split a URN; raises ValueError when it is none."""
        parts = text.split("::", 3)
        if len(parts) != 4 or not parts[0].startswith("urn:pulumi:"):
            raise ValueError(f"not a Pulumi URN: {text!r}")
        return cls(parts[0].removeprefix("urn:pulumi:"), parts[1], parts[2].rsplit("$", 1)[-1], parts[3], text)

    @property
    def default_name(self) -> str:
        """The name in AWS of a resource that declares none."""
        return f"{self.project}-{self.stack}-{self.name}"

    @property
    def owner(self) -> str:
        """What marks a resource as this declaration's own; fits into a tag value of any AWS service."""
        text = f"{self.project}/{self.stack}/{self.type}/{self.name}"
        return text if len(text) <= TAG_VALUE_LIMIT else sha256(text.encode()).hexdigest()
