"""AWS clients on the moto server of the test."""

from __future__ import annotations

import boto3
import pytest


@pytest.fixture
def aws(moto_server):
    """A function from a service's name to its client."""

    def client(service: str):
        return boto3.client(  # type: ignore[call-overload]
            service,
            endpoint_url=moto_server,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    return client
