"""Errors: every one has a code of its own and says what to do next."""

from __future__ import annotations

from collections import defaultdict

from trimtab.model import errors
from trimtab.model.errors import DeclarationError, SettingsError, TrimtabError

KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, TrimtabError)]


def test_no_two_errors_share_an_exit_code_unless_one_is_a_kind_of_the_other() -> None:
    by_code = defaultdict(list)
    for kind in KINDS:
        by_code[kind.exit_code].append(kind)
    assert [kinds for kinds in by_code.values() if len(kinds) > 1] == [[SettingsError, DeclarationError]]


def test_every_error_has_a_next_step_that_one_case_can_replace() -> None:
    assert all(kind.hint.endswith(".") for kind in KINDS)
    assert TrimtabError("x", hint="Do this.").hint == "Do this."
    assert TrimtabError("x").hint == TrimtabError.hint


def test_a_declaration_error_without_a_path_says_only_the_problem() -> None:
    assert str(DeclarationError("", "expected a mapping")) == "expected a mapping"
