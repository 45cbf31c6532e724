"""Every error a user can meet, each with its own exit code and its next step.

One list, so that docs/errors.md, the command line and scripts cannot disagree about a number.
"""

from __future__ import annotations


class TrimtabError(Exception):
    """An error with a next step.

    Attributes:
        exit_code: what the command line exits with; unique per class and documented in docs/errors.md.
        hint: what the user can do next, one sentence.
    """

    exit_code = 1
    hint = "Run the command again with --verbose for the cause."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class SettingsError(TrimtabError):
    """trimtab.toml or an option is missing, malformed or contradictory."""

    exit_code = 3
    hint = "Correct the named setting; `trimtab --help` and docs/settings.md list them all."


class DeclarationError(SettingsError):
    """A declared property is not what it should be; `path` names it."""

    hint = "Correct the named property in the program; docs/provider.md lists them all."

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class CredentialsError(TrimtabError):
    """AWS refused to say who we are: no credentials, or expired ones."""

    exit_code = 4
    hint = "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or attach an instance role."


class EngineMissingError(TrimtabError):
    """No usable Pulumi engine on PATH."""

    exit_code = 5
    hint = "Run `make engine`, or install Pulumi 3.274 or newer and put it on PATH."


class StackError(TrimtabError):
    """The stack does not exist, cannot be decrypted, or its program or configuration is wrong."""

    exit_code = 6
    hint = "Check `pulumi stack ls` and `pulumi preview` by hand in the project's folder."


class AgentUnreachableError(TrimtabError):
    """One or more node agents did not answer; their nodes count as unknown, never as broken."""

    exit_code = 7
    hint = "Check the agent on the named nodes and agents.discovery in trimtab.toml."


class StackLockedError(TrimtabError):
    """Another update holds the stack and its owner is not provably dead."""

    exit_code = 8
    hint = "Wait for the named owner; `pulumi cancel` only once you know that it is gone."


class PolicyRefusedError(TrimtabError):
    """A mandatory policy refused the update."""

    exit_code = 9
    hint = "Read the named policies: change the limit in the policy configuration or the declaration, not the group."


class PlanRefusedError(TrimtabError):
    """The plan broke an invariant, or the preview held a change that the plan did not ask for."""

    exit_code = 10
    hint = "Nothing was applied. Apply the other changes by hand with `pulumi up`, then reconcile again."


class PausedError(TrimtabError):
    """The scope is paused, so nothing may change."""

    exit_code = 11
    hint = "`trimtab resume` lifts the pause; `trimtab status` says who set it and why."


class LeaseHeldError(TrimtabError):
    """Another reconciler holds the lease for this stack."""

    exit_code = 12
    hint = "Only one reconciler acts per stack; the lease runs out on its own once its holder stops."


class AwsError(TrimtabError):
    """AWS could not be reached or refused a call for another reason than credentials."""

    exit_code = 13
    hint = "Check the region, AWS_ENDPOINT_URL and the role's permissions for the named call."


class ExecutionError(TrimtabError):
    """The stack update failed after the preview had been accepted."""

    exit_code = 14
    hint = "The journal holds the engine's words: `trimtab explain GROUP`. The next run continues from the live state."
