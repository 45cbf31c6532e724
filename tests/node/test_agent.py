"""The agent as a process: what it says of a node whose GPUs, driver or kernel misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

XID_79 = "NVRM: Xid (PCI:0000:40:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def check(report, name):
    return [each for each in report["checks"] if each["check"] == name]


def witnesses(report):
    return {each["witness"] for each in report["checks"] if each["health"] == "unhealthy"}


def is_process(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[-1].split()[0] not in "ZX"
    except OSError:
        return False


def gone_within(pids, seconds=5):
    deadline = time.monotonic() + seconds
    while any(map(is_process, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_process, pids))


def test_an_idle_node_is_healthy_and_says_so(well):
    report = well.report()

    assert report["instance_id"] == "i-test"
    assert report["boot_id"] == "boot-one"
    assert report["busy"] is False
    assert len(report["gpus"]) == 8
    assert report["cordon"] is None


def test_a_gpu_off_the_bus_is_condemned_by_driver_and_kernel(well):
    well.script.set(3, lost=1)
    well.kernel_says(XID_79)

    report = well.eventually(lambda each: witnesses(each) == {"nvml", "kernel-log"})

    assert report["health"] == "unhealthy"
    assert "GPU 3 is lost" in check(report, "lost_gpu")[0]["reason"]
    assert check(report, "xid")[0]["code"] == "xid-79"


def test_gpud_604_one_lost_gpu_hides_no_other(well):
    well.script.set("*", util=50, procs=1).set(3, lost=1)

    report = well.eventually(lambda each: each["health"] == "unhealthy")

    assert [gpu["utilization_ratio"] for gpu in report["gpus"]] == [0.5, 0.5, 0.5, None, 0.5, 0.5, 0.5, 0.5]
    assert report["busy"] is True


def test_a_lost_gpu_is_found_whichever_call_is_the_first_to_say_so(well):
    well.script.set(3, error="nvmlDeviceGetUtilizationRates=15")

    report = well.eventually(lambda each: each["health"] == "unhealthy")

    assert [each["gpu_uuid"][-1] for each in check(report, "lost_gpu")] == ["3"]
    assert 'trimtab_gpus_visible{node="n1"} 7.0' in well.get("/metrics")


@pytest.mark.parametrize("error", [8, 16, 999], ids=["no-power", "reset-required", "unknown-error"])
def test_a_gpu_that_answers_with_another_error_makes_the_node_unknown_never_healthy(well, error):
    well.script.set(3, error=f"nvmlDeviceGetUUID={error}")

    report = well.eventually(lambda each: each["health"] != "healthy")

    assert report["health"] == "unknown"
    assert check(report, "lost_gpu")[0]["code"] == "gpu-not-answering"
    assert report["busy"] is None


def test_nvsentinel_1748_a_flood_of_application_faults_hides_no_hardware_fault(well):
    flood = "\n".join("NVRM: Xid (PCI:0000:50:00): 13, pid=42, name=python" for _ in range(6000))
    well.kernel_says(f"{XID_79}\n{flood}\nNVRM: Xid (PCI:0000:60:00): 63, Row remapping event")
    time.sleep(1)  # all of it comes between two reports

    report = well.eventually(lambda each: any(result["code"] == "xid-63" for result in each["checks"]))

    assert {each["code"] for each in check(report, "xid")} == {"xid-63", "xid-79"}


def test_a_kernel_log_that_cannot_be_read_is_followed_once_it_can(node):
    (node.folder / "log").mkdir()
    node.start("--kmsg", str(node.folder / "log")).eventually(lambda each: each["health"] == "healthy")
    (node.folder / "log").rmdir()

    (node.folder / "log").write_text(XID_79 + "\n", encoding="utf-8")

    node.eventually(lambda each: each["health"] == "unhealthy")


def test_a_state_folder_that_takes_no_file_silences_no_report(well):
    (well.folder / "state").rmdir()

    well.kernel_says(XID_79)

    well.eventually(lambda each: each["health"] == "unhealthy")
    (well.folder / "state").mkdir()
    well.report()
    assert (well.folder / "state" / "incidents.json").exists()


def test_a_node_whose_lost_gpu_ran_the_last_job_is_idle(well):
    well.script.set(3, procs=1)
    well.eventually(lambda each: each["busy"] is True)

    well.script.set(3, lost=1)

    well.eventually(lambda each: each["health"] == "unhealthy" and each["busy"] is False)


def test_fewer_gpus_than_declared_are_found_missing(node):
    node.script.set("-", gpus=7)
    node.start("--expected-gpus", "8")

    report = node.eventually(lambda each: each["health"] == "unhealthy")

    assert check(report, "lost_gpu")[0]["code"] == "gpu-missing"


@pytest.mark.parametrize(
    ("values", "name", "code", "health"),
    [
        ({"recovery": 2}, "recovery_action", "recovery-action-2", "unhealthy"),
        ({"recovery": 9}, "recovery_action", "recovery-action-9", "unhealthy"),
        ({"ecc": 1}, "ecc_uncorrected", "ecc-uncorrected", "unhealthy"),
        ({"remap_failure": 1}, "row_remap", "row-remap-failure", "unhealthy"),
        ({"remap_pending": 1}, "row_remap", "row-remap-pending", "degraded"),
    ],
    ids=["driver-recommends-reboot", "unknown-recommendation", "ecc", "remap-failure", "remap-pending"],
)
def test_what_the_driver_says_of_a_gpu_becomes_a_result(well, values, name, code, health):
    well.script.set(5, **values)

    report = well.eventually(lambda each: each["health"] == health)

    assert [each["code"] for each in check(report, name)] == [code]


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_nvsentinel_1710_faults_of_applications_never_condemn_a_node(well, code):
    for _ in range(50):
        well.kernel_says(f"NVRM: Xid (PCI:0000:40:00): {code}, pid=42, name=python, Graphics Exception")
    well.script.xid(2, code)
    well.kernel_says("NVRM: Xid (PCI:0000:50:00): 63, Row remapping event")
    report = well.eventually(lambda each: any("Xid 63" in result["reason"] for result in each["checks"]))

    assert report["health"] == "degraded"
    assert not any(f"xid-{code}" == each["code"] for each in report["checks"])


def test_k8s_device_plugin_259_a_code_outside_the_catalogue_condemns_nothing(well):
    well.script.xid(2, 999)
    well.eventually(lambda _: "999" in well.get("/metrics"))

    assert well.report()["health"] == "healthy"


def test_k8s_device_plugin_1640_a_driver_that_cannot_be_opened_is_unknown(node):
    node.extra["LD_LIBRARY_PATH"] = str(node.folder)
    node.start()

    report = node.eventually(lambda each: "NVML cannot be used" in check(each, "driver")[0]["reason"])

    assert report["health"] == "unknown"
    assert report["busy"] is None
    assert 'trimtab_node_healthy{node="n1"}' not in node.get("/metrics")


def test_dcgm_exporter_164_a_hung_driver_is_unknown_while_metrics_go_on_and_recovers(well):
    well.script.set("-", hang=30)

    first = well.eventually(lambda each: each["health"] == "unknown")
    later = well.eventually(lambda each: each["snapshot_age_seconds"] > first["snapshot_age_seconds"] + 0.3)
    started = time.monotonic()
    metrics = well.get("/metrics")

    assert check(later, "driver")[0]["reason"] == "driver unresponsive"
    assert time.monotonic() - started < 1
    assert 'trimtab_collect_success{node="n1"} 0.0' in metrics
    assert "trimtab_gpu_temperature_celsius" in metrics

    well.script.set("-", hang=0)
    well.eventually(lambda each: each["health"] == "healthy")


def test_a_worker_that_is_killed_is_replaced(well):
    [worker] = well.workers()
    before = well.report()["sequence"]

    os.kill(worker, signal.SIGKILL)

    well.eventually(lambda each: each["sequence"] > before + 3 and each["health"] == "healthy")
    assert well.workers() != [worker]


def test_a_killed_agent_leaves_no_worker_behind(well):
    workers = well.workers()

    well.stop(signal.SIGKILL)

    assert len(workers) == 1
    assert gone_within(workers)


def test_a_stopped_agent_ends_cleanly(well):
    workers = well.workers()

    well.stop(signal.SIGTERM)

    assert well.process.returncode == 0
    assert gone_within(workers)


def test_incidents_outlive_the_agent_and_end_with_the_boot(well):
    well.kernel_says(XID_79)
    well.eventually(lambda each: each["health"] == "unhealthy")

    well.stop()
    well.start().eventually(lambda each: each["health"] == "unhealthy")

    well.stop()
    (well.folder / "boot_id").write_text("boot-two\n", encoding="utf-8")
    (well.folder / "kmsg").write_text("", encoding="utf-8")
    well.start().eventually(lambda each: each["health"] == "healthy" and each["boot_id"] == "boot-two")


def test_npd_1168_the_kernel_log_is_followed_through_floods_garbage_and_rotation(well):
    well.kernel_says(b"\xff\xfe\x00 not text\n" + b"x" * 200_000 + b"\n")
    for number in range(3000):
        well.kernel_says(f"6,{number},1,-;eth0: link is up")
    (well.folder / "kmsg").rename(well.folder / "kmsg.1")
    (well.folder / "kmsg").touch()
    time.sleep(0.5)

    well.kernel_says(f"4,9999,123,-;{XID_79}")

    well.eventually(lambda each: each["health"] == "unhealthy")


def test_a_missing_kernel_log_condemns_nothing_and_is_picked_up_when_it_comes(node):
    node.start()
    (node.folder / "kmsg").unlink()
    node.eventually(lambda each: each["health"] == "healthy")

    node.kernel_says(XID_79)

    node.eventually(lambda each: each["health"] == "unhealthy")


def test_a_check_can_be_switched_off(node):
    node.script.set(1, ecc=4)
    node.start("--disable", "ecc_uncorrected").eventually(lambda each: each["health"] == "healthy")

    assert check(node.report(), "ecc_uncorrected") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "nowhere"], "host:port"),
        (["--listen", "127.0.0.1:99999"], "host:port"),
        (["--token-file", "/does/not/exist"], "No such file"),
        (["--boot-id-file", "/does/not/exist"], "No such file"),
    ],
)
def test_an_agent_that_cannot_start_says_why_in_one_line(tmp_path, options, words):
    command = [sys.executable, "-m", "trimtab_agent.node.main", "--instance-id", "i-1", "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path), *options], capture_output=True, text=True, timeout=20, check=False
    )

    assert done.returncode == 3
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_that_is_none_is_refused_with_the_options_name(value):
    command = [sys.executable, "-m", "trimtab_agent.node.main", "--instance-id", "i-1", f"--interval={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert done.returncode == 2
    assert "--interval: invalid seconds value" in done.stderr


def test_the_agent_loads_neither_pulumi_nor_boto3(well):
    maps = Path(f"/proc/{well.process.pid}/maps").read_text()
    code = (
        "import sys, trimtab_agent.node.main, trimtab_agent.node.worker, trimtab_agent.node.nvml; "
        "print([name for name in ('pulumi', 'boto3', 'botocore', 'grpc', 'sqlalchemy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout.strip() == "[]"
    assert "cygrpc" not in maps
