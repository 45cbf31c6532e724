"""What an IAM action does, told from its name. Whatever the tables do not know counts as configuration.

AWS names actions as a verb and a noun. A pattern counts as reading only when the text before its first wildcard already
ends the verb, and only in the documented spelling, because in ``ec2:describe*`` nobody can tell where the verb ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from trimtab_policies.documents import matches

READ_VERBS: Final = (
    "BatchDescribe",
    "BatchGet",
    "Describe",
    "Filter",
    "Get",
    "Head",
    "List",
    "Lookup",
    "Query",
    "Scan",
    "Search",
)
READING: Final = re.compile(rf"[A-Za-z0-9-]+:(?:{'|'.join(READ_VERBS)})(?:[A-Z0-9*?].*)?")
HANDS_OUT_SECRETS: Final = (
    "cognito-identity:GetCredentialsForIdentity",
    "cognito-identity:GetOpenIdToken",
    "cognito-identity:GetOpenIdTokenForDeveloperIdentity",
    "ec2:GetPasswordData",
    "ecr:GetAuthorizationToken",
    "iam:GetCredentialReport",
    "lambda:GetFunction",
    "redshift:GetClusterCredentials",
    "redshift:GetClusterCredentialsWithIAM",
    "s3:GetObject",
    "s3:GetObjectVersion",
    "secretsmanager:BatchGetSecretValue",
    "secretsmanager:GetSecretValue",
    "ssm:GetParameter",
    "ssm:GetParameterHistory",
    "ssm:GetParameters",
    "ssm:GetParametersByPath",
    "sso:GetRoleCredentials",
    "sts:GetFederationToken",
    "sts:GetSessionToken",
)
LAUNCHING: Final = (
    "batch:CancelJob",
    "batch:SubmitJob",
    "batch:TerminateJob",
    "eks:AccessKubernetesApi",
    "sagemaker:CreateProcessingJob",
    "sagemaker:CreateTrainingJob",
    "sagemaker:StopProcessingJob",
    "sagemaker:StopTrainingJob",
    "ssm:ResumeSession",
    "ssm:StartSession",
    "ssm:TerminateSession",
)
READ_ONLY_POLICIES: Final = (
    "AmazonEC2ReadOnlyAccess",
    "AutoScalingReadOnlyAccess",
    "CloudWatchReadOnlyAccess",
    "job-function/ViewOnlyAccess",
)


def only_reads(action: str) -> bool:
    """Whether an action, or all that its pattern covers, reads and hands out no secret."""
    return READING.fullmatch(action) is not None and not any(matches(action, each) for each in HANDS_OUT_SECRETS)


def is_one_of(action: str, names: Iterable[str]) -> bool:
    """Whether an action is spelled out in a list, in whatever case; patterns never are."""
    return "*" not in action and action.lower() in {name.lower() for name in names}


def only_reads_managed(arn: object) -> bool:
    """Whether a managed policy is one of AWS's own that only read."""
    return (
        isinstance(arn, str)
        and re.fullmatch(rf"arn:aws[a-z-]*:iam::aws:policy/(?:{'|'.join(READ_ONLY_POLICIES)})", arn) is not None
    )
