"""Every rule against its own examples, and against resources that try to get round it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trimtab.model.access import Access, policy_document, service_trust, trust_document
from trimtab_policies.catalogue import RULES
from trimtab_policies.permissions import document
from trimtab_policies.plain import UNKNOWN
from trimtab_policies.rule import Resource, Rule, run, sample

BY_NAME = {rule.name: rule for rule in RULES}
ROLE = "trimtab:aws:Role"
AWS_ROLE = "aws:iam/role:Role"
GROUP = "trimtab:aws:AutoScalingGroup"
AWS_GROUP = "aws:autoscaling/group:Group"
AWS_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


def refused_by(*resources: Resource, config: dict[str, Any] | None = None) -> set[str]:
    return {rule.name for rule in RULES if run(rule, resources, config or {})}


def role(policy: Any, access: str | None = None) -> Resource:
    return sample(ROLE, {"policy": policy, "tags": {"trimtab:access": access} if access else {}})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_refuses_its_refused_example_and_accepts_its_accepted_one(rule: Rule) -> None:
    assert run(rule, rule.failing, {})
    assert run(rule, rule.passing, {}) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_message_says_where_what_and_how_to_fix_it(rule: Rule) -> None:
    message = rule.message(run(rule, rule.failing, {})[0])
    where, _, rest = message.partition(": ")
    what, _, fix = rest.partition(". Fix: ")
    assert where
    assert what
    assert fix.endswith(".")


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(RULES)


@pytest.mark.parametrize(
    ("actions", "resources", "rule"),
    [
        ("*", "*", "no-wildcard-admin"),
        (["s3:GetObject", "*"], ["*"], "no-wildcard-admin"),
        ("*:*", "*", "no-wildcard-admin"),
        ("**", "**", "no-wildcard-admin"),
        ("ec2:*", "*", "no-wildcard-admin"),
        ("EC2:?*", "*", "no-wildcard-admin"),
        ("ec2:*", "arn:aws:ec2:us-east-1:123456789012:*", "no-wildcard-admin"),
        ("ec2:*", "arn:*", "no-wildcard-admin"),
        ("iam:*", "arn:aws:iam::123456789012:role/one", "no-identity-service-wide"),
        ("IAM:*", "arn:aws:iam::123456789012:role/one", "no-identity-service-wide"),
        ("i*:*", "arn:aws:iam::123456789012:role/one", "no-identity-service-wide"),
        ("*", "arn:aws:iam::123456789012:role/one", "no-identity-service-wide"),
        ("sts:*", "*", "no-identity-service-wide"),
        ("iam:Put*", "*", "no-self-promotion"),
        ("iam:putrolepolicy", "*", "no-self-promotion"),
        ("iam:*RolePolicy", "arn:aws:iam::123456789012:role/*", "no-self-promotion"),
        ("iam:CreatePolicyVersion", "arn:aws:iam::123456789012:policy/*", "no-self-promotion"),
        ("iam:AddUserToGroup", "arn:aws:iam::*:group/*", "no-self-promotion"),
        ("iam:Pass????", "arn:aws:iam::*:role/*", "no-passing-any-role"),
        ("iam:PassRole", "arn:aws:iam::123456789012:r*", "no-passing-any-role"),
        ("sts:AssumeRole", "*", "no-assuming-any-role"),
        ("sts:ASSUME*", "arn:aws:iam::*:role/*", "no-assuming-any-role"),
    ],
)
def test_wildcards_are_refused_however_they_are_written(actions: Any, resources: Any, rule: str) -> None:
    assert rule in refused_by(role(document(actions, resources)))


@pytest.mark.parametrize(
    ("actions", "resources"),
    [
        ("s3:*", "arn:aws:s3:::one-bucket/*"),
        ("*", "arn:aws:s3:::one-bucket/*"),
        ("ec2:Describe*", "*"),
        ("iam:PassRole", "arn:aws:iam::123456789012:role/node"),
        ("sts:AssumeRole", "arn:aws:iam::123456789012:role/team/*"),
        ("sts:GetCallerIdentity", "*"),
    ],
)
def test_narrow_statements_are_accepted(actions: Any, resources: Any) -> None:
    assert refused_by(role(document(actions, resources))) == set()


def test_a_condition_does_not_excuse_an_administrator() -> None:
    policy = document("*", Condition={"Bool": {"aws:MultiFactorAuthPresent": "true"}})
    assert "no-wildcard-admin" in refused_by(role(policy))


def test_a_denying_statement_is_no_violation_whatever_it_names() -> None:
    denying = {"Statement": [{"Effect": "Deny", "NotAction": "iam:*", "Resource": "*"}]}
    assert refused_by(role(json.dumps(denying), "viewer")) == set()


def test_documents_may_be_objects_and_every_statement_counts() -> None:
    harmless = {"Effect": "Allow", "Action": ["ec2:DescribeInstances"], "Resource": ["*"]}
    policy = {"Version": "2012-10-17", "Statement": [harmless, {**harmless, "Action": ["*"]}]}
    (finding,) = run(BY_NAME["no-wildcard-admin"], [role(policy)], {})
    assert finding.where == "policy, statement 2"


@pytest.mark.parametrize(
    "policy",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"Statement": []}',
        '{"Statement": ["x"]}',
        "[" * 100_000,
        '{"Statement": {"Effect": "allow", "Action": "*", "Resource": "*"}}',
        '{"Statement": {"Effect": "Allow", "action": "*", "Resource": "*"}}',
        '{"statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}',
        '{"Statement": {"Effect": "Deny", "Effect": "Allow", "Action": "*", "Resource": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": "*", "NotAction": "a:b", "Resource": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": "everything", "Resource": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": " *", "Resource": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": [["*"]], "Resource": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}}',
        '{"Statement": {"Effect": "Allow", "Action": "a:b", "Resource": [1]}}',
        7,
        ["*"],
    ],
)
def test_documents_that_can_be_read_in_two_ways_are_refused(policy: Any) -> None:
    assert "access-document-must-be-valid" in refused_by(role(policy))


@pytest.mark.parametrize(
    "principal",
    [
        "*",
        {"AWS": "*"},
        {"AWS": ["arn:aws:iam::123456789012:root", "*"]},
        {"Federated": "*"},
        {"AWS": "arn:aws:iam::*:root"},
    ],
)
@pytest.mark.parametrize("kind", [ROLE, AWS_ROLE])
def test_nobody_may_trust_everybody(kind: str, principal: Any) -> None:
    trust = {"Statement": [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}]}
    assert "no-open-trust" in refused_by(sample(kind, {"assumeRolePolicy": json.dumps(trust)}))
    assert "no-open-trust" in refused_by(sample(kind, {"assumeRolePolicy": trust}))


def test_trusting_all_but_a_list_is_trusting_everybody() -> None:
    trust = {
        "Statement": {"Effect": "Allow", "NotPrincipal": {"AWS": "arn:aws:iam::1:root"}, "Action": "sts:AssumeRole"}
    }
    assert "no-open-trust" in refused_by(sample(ROLE, {"assumeRolePolicy": trust}))


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (ROLE, {"managedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"]}),
        (AWS_ROLE, {"managedPolicyArns": ["arn:aws-us-gov:iam::aws:policy/administratoraccess-Amplify"]}),
        (AWS_ROLE, {"managedPolicyArns": ["arn:aws:iam::aws:policy/job-function/DatabaseAdministrator"]}),
        ("aws:iam/userPolicyAttachment:UserPolicyAttachment", {"policyArn": "arn:aws:iam::aws:policy/PowerUserAccess"}),
        ("aws:iam/groupPolicyAttachment:GroupPolicyAttachment", {"policyArn": "arn:aws:iam::aws:policy/IAMFullAccess"}),
    ],
)
def test_administrators_by_managed_policy_are_refused(kind: str, props: dict[str, Any]) -> None:
    assert "no-admin-managed-policy" in refused_by(sample(kind, props))


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        ("aws:iam/policy:Policy", {"policy": document("*")}),
        ("aws:iam/rolePolicy:RolePolicy", {"policy": document("*")}),
        ("aws:iam/userPolicy:UserPolicy", {"policy": document("*")}),
        ("aws:iam/groupPolicy:GroupPolicy", {"policy": document("*")}),
        (
            AWS_ROLE,
            {"inlinePolicies": [{"name": "a", "policy": document("ec2:DescribeTags")}, {"policy": document("*")}]},
        ),
    ],
)
def test_the_same_document_is_refused_in_each_type_that_can_hold_it(kind: str, props: dict[str, Any]) -> None:
    assert "no-wildcard-admin" in refused_by(sample(kind, props))


@pytest.mark.parametrize(
    "props",
    [
        {"policy": UNKNOWN},
        {"assumeRolePolicy": UNKNOWN},
        {"policy": {"Statement": [{"Effect": "Allow", "Action": "ec2:DescribeTags", "Resource": UNKNOWN}]}},
        {"tags": UNKNOWN},
        {"tags": {"trimtab:access": UNKNOWN}},
    ],
)
def test_access_that_is_not_known_before_the_update_is_refused(props: dict[str, Any]) -> None:
    assert "access-document-must-be-known" in refused_by(sample(ROLE, props))


@pytest.mark.parametrize(
    "action",
    [
        "*",
        "ec2:*",
        "ec2:TerminateInstances",
        "ec2:De*",
        "ec2:?escribeInstances",
        "*:Describe*",
        "ec2:describeinstances",
        "ec2:Getaway",
        "ec2:FrobnicateInstances",
        "sts:AssumeRole",
        "secretsmanager:GetSecretValue",
        "secretsmanager:Get*",
        "ssm:Get*",
        "s3:GetObject",
        "s3:List*:x",
    ],
)
def test_a_viewer_with_anything_but_reading_is_refused_also_for_unknown_verbs(action: str) -> None:
    assert refused_by(role(document(action), "viewer")) & {"viewer-may-only-read", "access-document-must-be-valid"}


@pytest.mark.parametrize(
    "action", ["ec2:Describe*", "EC2:DescribeInstances", "cloudwatch:Get*", "cloudwatch:BatchGet?"]
)
def test_a_viewer_may_read(action: str) -> None:
    assert refused_by(role(document(action), "viewer")) == set()


@pytest.mark.parametrize(
    "action",
    [
        "iam:CreateRole",
        "autoscaling:UpdateAutoScalingGroup",
        "eks:*",
        "ssm:*Session",
        "eks:UpdateClusterConfig",
        "ssm:SendCommand",
    ],
)
def test_a_launcher_with_configuration_is_refused(action: str) -> None:
    assert "launcher-may-not-configure" in refused_by(role(document(action, "arn:aws:x:::one"), "launcher"))


def test_a_launcher_may_run_jobs_in_whatever_case() -> None:
    assert refused_by(role(document(["ssm:startsession", "batch:SubmitJob"]), "launcher")) == set()


def test_more_actions_are_allowed_by_configuration_and_only_spelled_out() -> None:
    launcher = role(document(["sagemaker:CreateAutoMLJob"]), "launcher")
    rule = BY_NAME["launcher-may-not-configure"]
    assert run(rule, [launcher], {"alsoAllowed": ["sagemaker:CreateAutoMLJob"]}) == []
    assert run(rule, [launcher], {"alsoAllowed": ["sagemaker:*"]})
    assert run(rule, [role(document("*"), "launcher")], {"alsoAllowed": ["*"]})


@pytest.mark.parametrize(
    "arn", ["arn:aws:iam::123456789012:policy/team", "arn:aws:iam::aws:policy/AmazonS3FullAccess", UNKNOWN]
)
def test_a_viewer_gets_no_managed_policy_that_is_not_known_to_only_read(arn: Any) -> None:
    viewer = sample(ROLE, {"managedPolicyArns": [arn], "tags": {"trimtab:access": "viewer"}})
    assert "viewer-may-only-read" in refused_by(viewer)


def test_an_access_role_without_its_tag_is_refused() -> None:
    urn = "urn:pulumi:dev::fleet::trimtab:index:AccessRole$trimtab:aws:Role::metrics"
    assert "access-role-must-say-what-it-is" in refused_by(Resource(ROLE, "metrics", urn, {}))


def test_a_tag_of_another_form_is_refused_and_never_raises() -> None:
    assert "access-role-must-say-what-it-is" in refused_by(sample(ROLE, {"tags": {"trimtab:access": ["viewer"]}}))


def test_a_viewer_made_of_several_resources_is_judged_as_one() -> None:
    viewer = sample(AWS_ROLE, {"name": "seen", "tags": {"trimtab:access": "viewer"}}, "viewer")
    policy = sample("aws:iam/policy:Policy", {"policy": document("ec2:TerminateInstances")}, "power")
    by_reference = sample(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment", {}, role=viewer.urn, policyArn=policy.urn
    )
    by_name = sample("aws:iam/rolePolicy:RolePolicy", {"role": "seen", "policy": document("ec2:RunInstances")})
    rule = BY_NAME["attached-policies-keep-the-roles-word"]
    assert [finding.urn for finding in run(rule, [viewer, policy, by_reference], {})] == [policy.urn]
    assert [finding.urn for finding in run(rule, [viewer, by_name], {})] == [by_name.urn]


def test_unknown_names_tie_no_policy_to_a_role() -> None:
    viewer = sample(AWS_ROLE, {"name": UNKNOWN, "tags": {"trimtab:access": "viewer"}})
    policy = sample("aws:iam/rolePolicy:RolePolicy", {"role": UNKNOWN, "policy": document("ec2:RunInstances")})
    assert run(BY_NAME["attached-policies-keep-the-roles-word"], [viewer, policy], {}) == []


@pytest.mark.parametrize("access", list(Access))
def test_the_roles_that_the_components_make_are_accepted(access: Access) -> None:
    trust = trust_document(["arn:aws:iam::123456789012:role/people"])
    made = {
        "policy": policy_document(access, "north"),
        "assumeRolePolicy": trust,
        "tags": {"trimtab:access": access.value},
    }
    node = sample(ROLE, {"assumeRolePolicy": service_trust("ec2.amazonaws.com")}, "node")
    assert refused_by(sample(ROLE, made), node) == set()


@pytest.mark.parametrize("most", [UNKNOWN, None, "64", True, 2.5])
def test_a_bound_that_is_no_number_is_refused(most: Any) -> None:
    assert "group-size-ceiling" in refused_by(sample(GROUP, {"maxSize": most, "instanceType": "g5.xlarge"}))


@pytest.mark.parametrize("kind", [None, UNKNOWN, "p9.48xlarge"])
def test_a_group_without_a_price_is_refused_until_somebody_writes_the_price_down(kind: Any) -> None:
    group = sample(GROUP, {"maxSize": 2, "instanceType": kind})
    assert refused_by(group) == {"group-price-ceiling"}


def test_prices_can_be_written_down_in_the_configuration() -> None:
    group = sample(GROUP, {"maxSize": 2, "instanceType": "p9.48xlarge"})
    prices = {"instanceTypes": {"p9.48xlarge": {"gpus": 8, "usdPerHour": 600}}}
    rule = BY_NAME["group-price-ceiling"]
    assert "1200.00" in run(rule, [group], prices)[0].what
    assert run(rule, [group], {**prices, "maxUsdPerHour": 1200.0}) == []


def test_a_pulumi_aws_group_is_priced_by_its_launch_template() -> None:
    template = sample(AWS_TEMPLATE, {"instanceType": "p4d.24xlarge"})
    group = sample(AWS_GROUP, {"maxSize": 64}, launchTemplate=template.urn)
    (finding,) = run(BY_NAME["stack-gpu-ceiling"], [template, group], {"maxGpus": 511})
    assert "512 GPUs" in finding.what


def test_a_pulumi_aws_group_is_priced_by_the_dearest_of_its_overrides() -> None:
    overrides = [{"instanceType": "g5.xlarge"}, {"instanceType": "p4d.24xlarge"}]
    group = sample(AWS_GROUP, {"maxSize": 64, "mixedInstancesPolicy": {"launchTemplate": {"overrides": overrides}}})
    assert "group-price-ceiling" in refused_by(group)


def test_a_pulumi_aws_group_of_an_unseen_template_is_refused() -> None:
    group = sample(AWS_GROUP, {"maxSize": 1, "launchTemplate": {"id": "lt-elsewhere"}})
    assert {"stack-gpu-ceiling", "stack-price-ceiling"} <= refused_by(group)


def test_volumes_are_judged_one_by_one() -> None:
    disks = [{"ebs": {"encrypted": True}}, {"ebs": {"volumeSize": 10}}]
    template = sample(AWS_TEMPLATE, {"blockDeviceMappings": disks, "metadataOptions": {"httpTokens": "required"}})
    (finding,) = run(BY_NAME["node-volumes-encrypted"], [template], {})
    assert finding.where == "blockDeviceMappings[1].ebs.encrypted"


@pytest.mark.parametrize("tokens", [UNKNOWN, "optional", None])
def test_metadata_tokens_must_be_required_in_so_many_words(tokens: Any) -> None:
    assert "imdsv2-required" in refused_by(sample(AWS_TEMPLATE, {"metadataOptions": {"httpTokens": tokens}}))


def test_resources_of_other_types_are_left_alone() -> None:
    assert refused_by(sample("aws:s3/bucket:Bucket", {"policy": document("*"), "maxSize": 1000})) == set()
