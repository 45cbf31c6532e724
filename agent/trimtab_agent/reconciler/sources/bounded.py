"""HTTP answers with one deadline and one size for the whole of each: a trickle is silence, and a flood is garbage."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta

import httpx

MOST_BYTES = 16 * 1024 * 1024


def get(client: httpx.Client, url: str, within: timedelta, params: Mapping[str, str] | None = None) -> httpx.Response:
    """A whole answer; httpx's own timeout starts anew with every byte.

    Raises:
        httpx.HTTPError: there is none within the time, or it is too big.
    """
    deadline = time.monotonic() + within.total_seconds()
    body = bytearray()
    with client.stream("GET", url, params=params, timeout=within.total_seconds()) as answer:
        for piece in answer.iter_bytes():
            body += piece
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout(f"the answer was not complete after {within.total_seconds():g} s")
            if len(body) > MOST_BYTES:
                raise httpx.DecodingError(f"the answer is bigger than {MOST_BYTES} bytes")
    kept = {key: value for key, value in answer.headers.items() if key == "content-type"}
    return httpx.Response(answer.status_code, headers=kept, content=bytes(body), request=answer.request)
