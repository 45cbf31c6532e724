"""The provider's only door to AWS: clients made when first needed, and errors in one line.

Clients are safe to share between threads; retries and time-outs are botocore's own, set once here. The clients are
boto3's, made by its core: boto3's own front adds 0.1 s to each command and nothing that is used here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_iam import IAMClient

OWNER_TAG = "trimtab:owner"
RESERVED = "aws:"
CONNECTIONS = 32
GONE = frozenset(
    {
        "NoSuchEntity",
        "NoSuchEntityException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


class AwsCallError(Exception):
    """An AWS call failed; `code` is AWS's own."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    @property
    def means_gone(self) -> bool:
        """True when AWS says that the thing does not exist."""
        return self.code in GONE


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn botocore's exceptions into AwsCallError with a sentence a user can act on."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        raise AwsCallError(str(error), code) from error
    except NoCredentialsError as error:
        raise AwsCallError(
            "AWS credentials are missing: set AWS_PROFILE or AWS_ACCESS_KEY_ID and its secret"
        ) from error
    except NoRegionError as error:
        raise AwsCallError("no AWS region: set AWS_REGION or `aws.region` in your profile") from error
    except BotoCoreError as error:
        raise AwsCallError(str(error)) from error


class Aws:
    """Clients for the services that the kinds use. Credentials and endpoint come from the environment."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End all waiting, now and later."""
        self._cancelled.set()

    def wait(self, seconds: float) -> None:
        """Sleep between two looks at something slow.

        Raises:
            AwsCallError: the engine cancelled the run.
        """
        if self._cancelled.wait(seconds):
            raise AwsCallError("cancelled while waiting; run the same command again to go on")

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                with plain_errors():
                    self._clients[service] = new_client(service)
            return self._clients[service]

    @property
    def autoscaling(self) -> AutoScalingClient:
        """Amazon EC2 Auto Scaling."""
        client: AutoScalingClient = self._client("autoscaling")
        return client

    @property
    def ec2(self) -> EC2Client:
        """Amazon EC2."""
        client: EC2Client = self._client("ec2")
        return client

    @property
    def iam(self) -> IAMClient:
        """AWS Identity and Access Management."""
        client: IAMClient = self._client("iam")
        return client


def new_client(service: str) -> Any:
    """One client with our retries and time-outs."""
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        retries={"mode": "standard", "max_attempts": 8},
        connect_timeout=5,
        read_timeout=60,
        max_pool_connections=CONNECTIONS,
        user_agent_extra="trimtab",
    )
    return get_session().create_client(service, config=config)


def unless_gone(call: Callable[[], Any]) -> Any:
    """The call's answer, or None when AWS says that its object does not exist."""
    try:
        with plain_errors():
            return call()
    except AwsCallError as error:
        if error.means_gone:
            return None
        raise


def tag_list(tags: dict[str, str], owner: str) -> list[dict[str, str]]:
    """User tags and our ownership tag in AWS's form."""
    return [{"Key": key, "Value": value} for key, value in sorted({**tags, OWNER_TAG: owner}.items())]


def user_tags(tags: list[Any]) -> tuple[dict[str, str], str | None]:
    """AWS's tag list as the user's own tags and the owner, if any; tags that AWS itself sets are nobody's."""
    found = {tag["Key"]: tag.get("Value", "") for tag in tags if not tag["Key"].startswith(RESERVED)}
    owner = found.pop(OWNER_TAG, None)
    return found, owner
