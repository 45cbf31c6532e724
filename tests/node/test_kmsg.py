"""Lines of the kernel's log, as several drivers and kernels write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_agent.node.kmsg import parse, step


@pytest.mark.parametrize(
    ("line", "code", "pci"),
    [
        ("NVRM: Xid (PCI:0000:40:00): 79, pid=1, name=x, GPU has fallen off the bus.", 79, "0000:40:00"),
        ("NVRM: Xid (PCI:0000:40:00.0): 79, GPU has fallen off the bus.", 79, "0000:40:00"),
        ("NVRM: Xid (0000:40:00): 48, Double Bit ECC", 48, "0000:40:00"),
        ("NVRM: Xid (PCI:00000000:0a:00): 31, MMU Fault", 31, "0000:0A:00"),
        ("NVRM: Xid (PCI:0000:40:00): 79", 79, "0000:40:00"),
        ("[12345.6] NVRM: Xid (PCI:0000:40:00): 119, Timeout waiting for RPC", 119, "0000:40:00"),
        ("4,1201,8817623,-;NVRM: Xid (PCI:0000:40:00): 94, Contained", 94, "0000:40:00"),
        ("Dec 01 host kernel: NVRM: Xid (PCI:0000:40:00): 154, GPU recovery action changed", 154, "0000:40:00"),
        ("NVRM: GPU 0000:40:00.0: GPU has fallen off the bus.", 79, "0000:40:00"),
        ("NVRM: The NVIDIA GPU 0000:40:00.0 (PCI ID: 10de:2330) has fallen off the bus and is not", 79, "0000:40:00"),
    ],
)
def test_lines_that_name_a_fault(line, code, pci):
    found = parse(line)

    assert found is not None
    assert (found.code, found.pci) == (code, pci)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.148.08",
        "NVRM: Xid (PCI:0000:40:00): none",
        "NVRM: Xid (PCI:zz): 79,",
        "somebody says Xid 79",
        "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30",
    ],
)
def test_lines_that_name_none(line):
    assert parse(line) is None


@given(st.text(max_size=400))
def test_no_line_is_too_strange_to_read(line):
    parse(line)


def test_gpud_604_one_sentence_about_a_lost_gpu_may_stand_in_three_records():
    lines = [
        "NVRM: The NVIDIA GPU 0000:40:00.0",
        "6,10,20,-;eth0: link is up",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]
    named, found = None, None
    for line in lines:
        assert found is None
        named, found = step(named, line)

    assert (found.code, found.pci, named) == (79, "0000:40:00", None)


def test_one_sentence_about_a_lost_gpu_may_stand_in_one_record_with_escaped_line_ends():
    line = "4,1,2,-;NVRM: The NVIDIA GPU 0000:40:00.0\\x0aNVRM: (PCI ID: 10de:2330) has\\x0aNVRM: fallen off the bus"

    assert step(None, line)[1].pci == "0000:40:00"


def test_another_sentence_about_a_gpu_condemns_it_not():
    named, _ = step(None, "NVRM: The NVIDIA GPU 0000:40:00.0")
    named, _ = step(named, "NVRM: (PCI ID: 10de:2330) needs a newer driver")

    assert step(named, "NVRM: a GPU has fallen off the bus") == (None, None)


@given(st.none() | st.just("0000:40:00"), st.text(max_size=400))
def test_no_line_is_too_strange_to_continue_with(named, line):
    step(named, line)
