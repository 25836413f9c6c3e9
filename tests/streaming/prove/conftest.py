"""The server of the tests of snapshots serves these too."""

from tests.streaming.snapshot.conftest import shared_server

__all__ = ["shared_server"]
