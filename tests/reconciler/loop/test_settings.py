"""trimtab.toml: every mistake names the file and the key; docs/settings.md lists exactly what is read."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from trimtab.model.errors import SettingsError
from trimtab_agent.reconciler import settings

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("TRIMTAB_STACK", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: fleet\nruntime: python\n", encoding="utf-8")
    return folder


def load(project, text, **options):
    (project / "trimtab.toml").write_text(text, encoding="utf-8")
    return settings.load(project, **options)


def test_a_stack_is_enough(project):
    found = settings.load(project, "dev")
    assert found.stack == "dev"
    assert found.policy_pack is None
    assert found.discovery == "private-ip"
    assert found.timeout == timedelta(seconds=2)
    assert found.journal.endswith("/state/trimtab/fleet-dev.db")


def test_the_command_line_beats_the_environment_which_beats_the_file(project, monkeypatch):
    text = '[project]\nstack = "from-file"\n'
    assert load(project, text).stack == "from-file"
    monkeypatch.setenv("TRIMTAB_STACK", "from-environment")
    assert load(project, text).stack == "from-environment"
    assert load(project, text, stack="from-option").stack == "from-option"


def test_paths_are_relative_to_the_project(project):
    found = load(project, '[project]\nstack="dev"\n[agents]\ndiscovery="file"\nfile="agents.json"\ntoken_file="t"\n')
    assert found.discovery_file == project / "agents.json"
    assert found.token_file == project / "t"


def test_the_projects_own_policy_pack_is_used_without_being_asked_for(project):
    (project / "policies").mkdir()
    (project / "policies" / "PulumiPolicy.yaml").write_text("runtime: python\n", encoding="utf-8")
    assert settings.load(project, "dev").policy_pack == project / "policies"


def test_two_checkouts_of_one_project_share_a_journal_and_two_projects_never_do(project, tmp_path):
    other = tmp_path / "elsewhere" / "checkout"
    other.mkdir(parents=True)
    (other / "Pulumi.yaml").write_text('{"name": "fleet", "runtime": "python"}', encoding="utf-8")
    assert settings.load(other, "dev").journal == settings.load(project, "dev").journal
    (other / "Pulumi.yaml").write_text("runtime: python\nname: 'another'\n", encoding="utf-8")
    assert settings.load(other, "dev").journal != settings.load(project, "dev").journal


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[project\n", "not TOML"),
        ("[project]\n", "project.stack: no stack is named"),
        ('[project]\nstack="dev"\nname="x"\n', "project.name: unknown property"),
        ('[agent]\nport=1\n[project]\nstack="dev"\n', "agent: unknown property; did you mean 'agents'"),
        ('[project]\nstack="dev"\n[agents]\nprot=9400\n', "agents.prot: unknown property; did you mean 'port'"),
        ('[project]\nstack="dev"\n[agents]\nport="9400"\n', "agents.port: expected a number, got '9400'"),
        ('[project]\nstack="dev"\n[agents]\ndiscovery="dns"\n', "agents.discovery: expected private-ip or file"),
        ('[project]\nstack="dev"\n[agents]\ndiscovery="file"\n', "agents.file: give a file if, and only if"),
        ('[project]\nstack="dev"\n[agents]\nfile="x"\n', "agents.file: give a file if, and only if"),
        ('[project]\nstack="dev"\n[prometheus]\nurl="localhost:9090"\n', "prometheus.url: expected an http or https"),
        ('[project]\nstack="dev"\n[queue]\nurl=3\n', "queue.url: expected text, got 3"),
        ('[project]\nstack="dev"\n[engine]\nhistory_kept=0\n', "engine.history_kept: expected at least 1"),
        ('project="dev"\n', "project: expected a mapping"),
        ("project=false\n", "project: expected a mapping"),
        ('[project]\nstack="dev"\n[agents]\nport=65536\n', "agents.port: expected at most 65535"),
        ('[project]\nstack="dev"\n[agents]\ntimeout_seconds=0\n', "agents.timeout_seconds: expected more than 0"),
        (f'[project]\nstack="dev"\n[agents]\ntimeout_seconds=1{"0" * 400}\n', "agents.timeout_seconds: expected a"),
        (f"[project]\nstack={'[' * 5000}\n", "not TOML"),
        *(
            (f'[project]\nstack="dev"\n[queue]\nurl="{url}"\n', "queue.url: expected an http or https URL")
            for url in ("http://[::1", "http://host:port/", "http://host:99999/", "http://:80/", "http:///x")
        ),
    ],
)
def test_a_mistake_names_the_file_the_key_and_what_is_expected(project, text, words):
    with pytest.raises(SettingsError) as caught:
        load(project, text)
    assert str(project / "trimtab.toml") in str(caught.value)
    assert words in str(caught.value)


def test_bytes_that_are_not_utf8_are_no_toml_and_do_no_harm_in_pulumi_yaml(project):
    (project / "Pulumi.yaml").write_bytes(b"name: fleet\ndescription: caf\xe9\n")
    assert "fleet-dev" in settings.load(project, "dev").journal
    (project / "trimtab.toml").write_bytes(b'[project]\nstack="d\xe9v"\n')
    with pytest.raises(SettingsError, match="not TOML"):
        settings.load(project)


def test_a_folder_that_is_none_is_said_before_what_it_lacks(tmp_path):
    with pytest.raises(SettingsError, match=r"holds no Pulumi.yaml"):
        settings.load(tmp_path / "nowhere")


def test_a_folder_without_a_project_is_refused_with_the_option_that_names_one(tmp_path):
    with pytest.raises(SettingsError, match=r"holds no Pulumi.yaml") as caught:
        settings.load(tmp_path, "dev")
    assert "--project" in caught.value.hint


def test_the_document_lists_exactly_the_keys_that_are_read(project):
    """Each unknown table or key is answered with all known ones; the document must hold the same."""
    documented = set(
        re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    )
    tables = {key.split(".")[0] for key in documented}
    read = {f"{table}.{key}" for table in tables for key in known(project, f"[{table}]\nzzzzzzzz = 1\n")}
    assert read == documented
    assert tables == known(project, "[zzzzzzzz]\n")


def known(project, text):
    stack = "" if "[project]" in text else '[project]\nstack = "dev"\n'
    with pytest.raises(SettingsError) as caught:
        load(project, text + stack, stack="dev")
    return set(str(caught.value).rsplit("known here: ", 1)[1].split(", "))
