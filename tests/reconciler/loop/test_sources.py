"""Sources answer with data or with why there is none; nothing missing ever becomes a number."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from trimtab.model.errors import AgentUnreachableError, AwsError, CredentialsError, SettingsError
from trimtab.model.health import HealthState, NodeReport
from trimtab.model.health_wire import report_to_json
from trimtab.model.scaling import Signal
from trimtab_agent.reconciler.observation import Ec2Status
from trimtab_agent.reconciler.settings import Settings
from trimtab_agent.reconciler.sources import metrics
from trimtab_agent.reconciler.sources.agents import Agents, file_targets
from trimtab_agent.reconciler.sources.aws import Aws, SeenInstance, our_errors

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
QUERY = Signal("load", "promql", "avg(load)")
BASE = Settings(Path(), "dev", None, None, "sqlite://", timeout=timedelta(seconds=1))


def report(identity="i-1", busy=True, ratio=0.5):
    return NodeReport("n", identity, "boot", 1, NOW, 0.1, HealthState.HEALTHY, (), 8, busy, ratio)


@pytest.fixture
def server():
    """An HTTP server that answers what the test puts into `replies`, by path, and keeps what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.server.sent.append((self.path, self.headers.get("Authorization"), body))
            status, text = self.server.replies[self.path.split("?")[0]]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = reply  # noqa: N815

        def log_message(self, *_):
            """Say nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.replies, made.sent = {}, []
    made.url = f"http://127.0.0.1:{made.server_port}"
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def prometheus(result, kind="vector"):
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (prometheus([{"metric": {}, "value": [NOW.timestamp(), "0.75"]}]), 0.75),
        (prometheus([NOW.timestamp(), "3"], "scalar"), 3.0),
    ],
)
def test_one_sample_is_a_value_with_its_own_time(server, text, value):
    server.replies["/api/v1/query"] = (200, text)
    sample = metrics.promql(replace(BASE, prometheus_url=server.url), QUERY)
    assert (sample.value, sample.at, sample.problem) == (value, NOW, None)
    assert "query=avg%28load%29" in server.sent[0][0]


@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (200, prometheus([]), "gives 0 series"),
        (200, prometheus([{"value": [1, "1"]}] * 2), "gives 2 series"),
        (200, prometheus([{"value": [1, "NaN"]}]), "gives NaN"),
        (200, prometheus([{"value": [1, "+Inf"]}]), "gives +Inf"),
        (200, prometheus([{"values": []}], "matrix"), "not in its query format"),
        (400, json.dumps({"status": "error", "error": "parse error"}), "parse error"),
        (502, "<html>bad gateway</html>", "Prometheus: "),
        (200, "[]", "not in its query format"),
        (200, '{"status": "success"}', "not in its query format"),
    ],
)
def test_whatever_is_not_one_finite_sample_is_a_problem(server, status, text, problem):
    server.replies["/api/v1/query"] = (status, text)
    sample = metrics.promql(replace(BASE, prometheus_url=server.url), QUERY)
    assert sample.value is None
    assert problem in sample.problem


@pytest.mark.parametrize("at", [1e300, "inf", "nan", 10**400, "[" * 100_000])
def test_a_number_or_a_nesting_that_nobody_can_hold_is_a_problem(server, at):
    text = prometheus([at, "1"], "scalar") if at != "[" * 100_000 else at
    server.replies["/api/v1/query"] = (200, text)
    sample = metrics.promql(replace(BASE, prometheus_url=server.url), QUERY)
    assert sample.value is None
    assert sample.problem


@pytest.fixture
def trickle():
    """A server whose answer comes byte by byte and never ends, or all at once and far too big."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not self.server.over.wait(self.server.pause):
                    self.wfile.write(self.server.piece)

        def log_message(self, *_):
            """Say nothing."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.over, made.pause, made.piece = threading.Event(), 0.05, b" "
    made.url = f"http://127.0.0.1:{made.server_port}"
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("pause", "piece", "words"), [(0.05, b" ", "not complete"), (0, b" " * 2**20, "")])
def test_an_answer_without_an_end_is_silence_for_every_source(trickle, tmp_path, pause, piece, words):
    trickle.pause, trickle.piece = pause, piece
    file = tmp_path / "agents.json"
    target = [{"targets": [f"127.0.0.1:{trickle.server_port}"], "labels": {"instance_id": "i-1"}}]
    file.write_text(json.dumps(target), encoding="utf-8")
    own = replace(BASE, prometheus_url=trickle.url, queue_url=trickle.url, discovery_file=file)
    agents = Agents(own)
    said = [
        agents.reports(SEEN[:1])["i-1"].problem,
        metrics.promql(own, QUERY).problem,
        metrics.pending_gpus(own, NOW),
    ]
    agents.close()
    for each in said:
        assert isinstance(each, str)
        assert words in each


def test_no_prometheus_and_a_silent_one_are_problems_too():
    assert metrics.promql(BASE, QUERY).problem == "prometheus.url is not set"
    assert metrics.promql(replace(BASE, prometheus_url="http://127.0.0.1:9"), QUERY).value is None


def test_pending_gpus_are_read_by_group_and_several_queues_add_up(server):
    server.replies["/metrics"] = (
        200,
        (
            "# TYPE trimtab_queue_pending_gpus gauge\n"
            'trimtab_queue_pending_gpus{group="train",queue="a"} 8\n'
            'trimtab_queue_pending_gpus{group="train",queue="b"} 4\n'
            'trimtab_queue_pending_gpus{group="batch"} NaN\nsomething_else{group="serve"} 1\n'
        ),
    )
    found = metrics.pending_gpus(replace(BASE, queue_url=f"{server.url}/metrics"), NOW)
    assert {name: sample.value for name, sample in found.items()} == {"train": 12.0}


@pytest.mark.parametrize(("status", "text"), [(500, ""), (200, "no metrics at { all")])
def test_a_queue_that_cannot_be_read_says_so(server, status, text):
    server.replies["/metrics"] = (status, text)
    found = metrics.pending_gpus(replace(BASE, queue_url=f"{server.url}/metrics"), NOW)
    assert isinstance(found, str)
    assert metrics.pending_gpus(BASE, NOW) == "queue.url is not set"


@pytest.mark.parametrize(
    ("source", "value"), [("busy_nodes", 1.0), ("busy_ratio", 0.5), ("gpu_utilization", pytest.approx(0.6))]
)
def test_built_in_signals_count_only_nodes_that_know(source, value):
    reports = [report(busy=True, ratio=0.9), report(busy=False, ratio=0.3), report(busy=None, ratio=None)]
    assert metrics.from_reports(source, reports, NOW).value == value


@pytest.mark.parametrize("source", ["busy_nodes", "busy_ratio", "gpu_utilization"])
def test_without_a_node_that_knows_a_built_in_signal_has_no_value(source):
    for reports in ([], [report(busy=None, ratio=None)]):
        sample = metrics.from_reports(source, reports, NOW)
        assert sample.value is None
        assert sample.problem


@pytest.fixture
def discovery(tmp_path, server):
    """Settings under which the server is the agent of i-1, and nobody is that of i-2."""
    file = tmp_path / "agents.json"
    file.write_text(
        json.dumps([{"targets": [f"127.0.0.1:{server.server_port}"], "labels": {"instance_id": "i-1"}}]),
        encoding="utf-8",
    )
    (tmp_path / "token").write_text("s3cr3t\n", encoding="utf-8")
    return replace(BASE, discovery="file", discovery_file=file, token_file=tmp_path / "token")


@pytest.fixture
def agents(discovery):
    opened = Agents(discovery)
    yield opened
    opened.close()


SEEN = [SeenInstance("i-1", "InService"), SeenInstance("i-2", "InService")]


def test_an_agents_report_arrives_whole_and_an_unknown_agent_is_a_problem(server, agents):
    server.replies["/v1/report"] = (200, json.dumps(report_to_json(report())))
    answers = agents.reports(SEEN)
    assert answers["i-1"].report == report()
    assert answers["i-2"].report is None
    assert "discovery knows no agent" in answers["i-2"].problem


@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (500, "", "500"),
        (200, "<html>", "not a report"),
        (200, json.dumps({**report_to_json(report()), "health": "fine"}), "not a report"),
        (200, json.dumps({**report_to_json(report()), "schema": 2}), "not a report"),
        (200, json.dumps(report_to_json(report("i-9"))), "speaks for i-9, not for i-1"),
        (200, "[" * 100_000, "not a report"),
        (200, json.dumps({**report_to_json(report()), "sequence": 10**400}), "not a report"),
    ],
)
def test_an_answer_that_is_no_report_of_this_node_is_silence_with_a_reason(server, agents, status, text, problem):
    server.replies["/v1/report"] = (status, text)
    answer = agents.reports(SEEN)["i-1"]
    assert answer.report is None
    assert problem in answer.problem


def test_orders_carry_the_token_and_a_refusal_is_an_error_without_it(server, agents):
    server.replies["/v1/cordon"] = (200, "{}")
    agents.order(server.url, "cordon", {"owner": "trimtab-reconciler", "epoch": 3})
    assert server.sent[0] == ("/v1/cordon", "Bearer s3cr3t", b'{"owner":"trimtab-reconciler","epoch":3}')

    server.replies["/v1/cordon"] = (409, "")
    with pytest.raises(AgentUnreachableError, match="409") as caught:
        agents.order(server.url, "cordon", {})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("file", [None, Path("/nowhere/token")])
def test_orders_without_a_readable_token_name_the_setting(discovery, server, file):
    agents = Agents(replace(discovery, token_file=file))
    with pytest.raises(SettingsError, match=r"agents\.token_file"):
        agents.order(server.url, "cordon", {})
    agents.close()


def test_an_address_that_is_none_is_a_silent_agent(discovery):
    discovery.discovery_file.write_text('[{"targets": ["[::"], "labels": {"instance_id": "i-1"}}]', encoding="utf-8")
    agents = Agents(discovery)
    assert agents.reports(SEEN)["i-1"].report is None
    agents.close()


def test_a_discovery_file_that_is_missing_knows_nobody_and_a_malformed_one_is_an_error(discovery):
    discovery.discovery_file.write_text('{"targets": []}', encoding="utf-8")
    with pytest.raises(SettingsError, match="file_sd"):
        file_targets(discovery)
    discovery.discovery_file.unlink()
    assert file_targets(discovery) == {}


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[" * 100_000, b"null", b"[1]", b'[{"targets": {}, "labels": {}}]', None]
)
def test_a_discovery_file_that_cannot_be_read_names_the_setting(discovery, content):
    discovery.discovery_file.unlink()
    if content is None:
        discovery.discovery_file.mkdir()
    else:
        discovery.discovery_file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"agents\.file"):
        file_targets(discovery)


def test_a_token_that_no_header_can_carry_names_the_setting(discovery, server):
    discovery.token_file.write_bytes("s3cr\u00e9t".encode())
    agents = Agents(discovery)
    with pytest.raises(SettingsError, match=r"agents\.token_file"):
        agents.order(server.url, "cordon", {})
    agents.close()


@pytest.fixture
def group(monkeypatch):
    """A group of three instances in an emulated AWS."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        autoscaling = boto3.client("autoscaling", region_name="us-east-1")
        autoscaling.create_launch_configuration(
            LaunchConfigurationName="lc", ImageId="ami-12c6146b", InstanceType="m5.large"
        )
        autoscaling.create_auto_scaling_group(
            AutoScalingGroupName="g",
            LaunchConfigurationName="lc",
            MinSize=1,
            MaxSize=5,
            DesiredCapacity=3,
            AvailabilityZones=["us-east-1a"],
        )
        yield autoscaling
        autoscaling.close()


@pytest.mark.usefixtures("group")
def test_groups_are_seen_with_their_instances_and_absent_ones_are_absent():
    seen = Aws("us-east-1").groups(["g", "another"])
    assert list(seen) == ["g"]
    assert (seen["g"].desired, seen["g"].min_size, seen["g"].max_size) == (3, 1, 5)
    assert len(seen["g"].instances) == 3
    for each in seen["g"].instances:
        assert each.lifecycle == "InService"
        assert each.private_ip
        assert each.launched_at
        assert each.status is Ec2Status.OK


@pytest.mark.usefixtures("group")
def test_an_instance_that_ec2_does_not_know_is_seen_as_unknown_and_does_not_end_the_round():
    aws = Aws("us-east-1")
    known = aws.groups(["g"])["g"].instances[0].instance_id
    assert list(aws._details([known, "i-0123456789abcdef0"])) == [known]
    assert aws._statuses([]) == {}


@pytest.mark.parametrize(
    ("code", "kind"), [("ExpiredToken", CredentialsError), ("AuthFailure", CredentialsError), ("Throttling", AwsError)]
)
def test_a_refusal_by_aws_is_about_credentials_or_not(code, kind):
    from botocore.exceptions import ClientError

    with pytest.raises(kind, match=code), our_errors("DescribeInstances"):
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeInstances")


def test_no_region_is_said_in_one_sentence(monkeypatch, tmp_path):
    for key in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(AwsError, match="region"):
        Aws(None)


GROUP_WITHOUT_INSTANCES = """<r><DescribeAutoScalingGroupsResult><AutoScalingGroups><member>
<AutoScalingGroupName>g</AutoScalingGroupName></member></AutoScalingGroups></DescribeAutoScalingGroupsResult></r>"""


@pytest.mark.parametrize(
    "text",
    ["", "<html><body>hi", "<html><body>hi</body></html>", "{}", "<r/>", GROUP_WITHOUT_INSTANCES],
    ids=["nothing", "half-a-page", "a-page", "json", "no-result", "half-a-group"],
)
@pytest.mark.parametrize("status", [200, 301, 404])
def test_whatever_else_answers_in_place_of_aws_is_an_error_of_aws(server, monkeypatch, status, text):
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    server.replies["/"] = (status, text)
    with pytest.raises(AwsError, match="DescribeAutoScalingGroups") as caught:
        Aws("us-east-1").groups(["g"])
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:99999", "http://[::1"])
def test_an_endpoint_that_is_none_is_an_error_of_aws(monkeypatch, url):
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    with pytest.raises(AwsError):
        Aws("us-east-1").groups(["g"])
