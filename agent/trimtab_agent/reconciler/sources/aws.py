"""Groups, instances and AWS's own status checks. The reconciler's only importer of boto3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trimtab.model.errors import AwsError, CredentialsError
from trimtab_agent.reconciler.observation import Ec2Status

CREDENTIAL_CODES = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
PAGE = 100


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """An instance as AWS shows it."""

    instance_id: str
    lifecycle: str
    private_ip: str | None = None
    launched_at: datetime | None = None
    status: Ec2Status = Ec2Status.UNKNOWN


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """An auto-scaling group as AWS shows it."""

    desired: int
    min_size: int
    max_size: int
    instances: tuple[SeenInstance, ...]


@contextmanager
def our_errors(call: str) -> Iterator[None]:
    """Turn botocore's exceptions into ours."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.ProfileNotFound,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
    ) as error:
        raise CredentialsError(f"AWS credentials are missing or incomplete: {error}") from error
    except exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in CREDENTIAL_CODES:
            raise CredentialsError(f"AWS refused the credentials: {error}") from error
        raise AwsError(f"{call}: {error}") from error
    except exceptions.BotoCoreError as error:
        raise AwsError(f"{call}: {error}") from error
    except (ResponseParserError, LookupError, TypeError, AttributeError) as error:
        raise AwsError(f"{call}: what answers is not AWS, or only half of it: {one_line(error)}") from error
    except ValueError as error:  # an AWS_ENDPOINT_URL that is none
        raise AwsError(f"{call}: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """The beginning of an error's words; botocore quotes whole pages."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class Aws:
    """Read-only calls on one region."""

    def __init__(self, region: str | None) -> None:
        import boto3
        from botocore.config import Config

        with our_errors("opening a session"):
            session = boto3.Session(region_name=region)
            config = Config(retries={"mode": "standard", "max_attempts": 4}, connect_timeout=3, read_timeout=20)
            self._autoscaling = session.client("autoscaling", config=config)
            self._ec2 = session.client("ec2", config=config)

    def groups(self, names: Sequence[str]) -> dict[str, SeenGroup]:
        """The named groups that exist, with their instances."""
        with our_errors("DescribeAutoScalingGroups"):
            pages = self._autoscaling.get_paginator("describe_auto_scaling_groups").paginate(
                AutoScalingGroupNames=list(names)
            )
            found = [group for page in pages for group in page["AutoScalingGroups"] if not group.get("Status")]
            identities = [each["InstanceId"] for group in found for each in group["Instances"]]
        details = self._details(identities)
        statuses = self._statuses(list(details))
        with our_errors("DescribeAutoScalingGroups"):
            return {group["AutoScalingGroupName"]: _seen(group, details, statuses) for group in found}

    def _details(self, identities: Sequence[str]) -> dict[str, Any]:
        """Asked for by filter: EC2 refuses ids that it doesn't know yet, but a group lists its instances at once."""
        details: dict[str, Any] = {}
        with our_errors("DescribeInstances"):
            for batch in _batches(identities):
                for page in self._ec2.get_paginator("describe_instances").paginate(Filters=[only(batch)]):
                    for reservation in page["Reservations"]:
                        details.update({each["InstanceId"]: each for each in reservation["Instances"]})
        return details

    def _statuses(self, identities: Sequence[str]) -> dict[str, Ec2Status]:
        statuses: dict[str, Ec2Status] = {}
        with our_errors("DescribeInstanceStatus"):
            for batch in _batches(identities):
                pages = self._ec2.get_paginator("describe_instance_status").paginate(
                    InstanceIds=batch, IncludeAllInstances=True
                )
                for page in pages:
                    statuses.update({each["InstanceId"]: _status(each) for each in page["InstanceStatuses"]})
        return statuses


def only(identities: list[str]) -> Any:
    """EC2's filter for these instances."""
    return {"Name": "instance-id", "Values": identities}


def _batches(identities: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(identities), PAGE):
        yield list(identities[start : start + PAGE])


def _status(entry: Mapping[str, Any]) -> Ec2Status:
    said = {entry["InstanceStatus"]["Status"], entry["SystemStatus"]["Status"]}
    if "impaired" in said:
        return Ec2Status.IMPAIRED
    if said == {"ok"}:
        return Ec2Status.OK
    return Ec2Status.INITIALIZING if "initializing" in said else Ec2Status.UNKNOWN


def _seen(group: Any, details: Mapping[str, Any], statuses: Mapping[str, Ec2Status]) -> SeenGroup:
    instances = tuple(
        SeenInstance(
            each["InstanceId"],
            each["LifecycleState"],
            details.get(each["InstanceId"], {}).get("PrivateIpAddress"),
            details.get(each["InstanceId"], {}).get("LaunchTime"),
            statuses.get(each["InstanceId"], Ec2Status.UNKNOWN),
        )
        for each in group["Instances"]
    )
    return SeenGroup(group["DesiredCapacity"], group["MinSize"], group["MaxSize"], instances)
