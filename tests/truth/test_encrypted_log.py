"""An encrypted log is named as such, never taken for damage or for an empty log."""

from __future__ import annotations

import pytest

from binlog_format.errors import UnsupportedError
from tests.truth.cases import ENCRYPTED, case
from tests.truth.reading import json_changes


def test_encrypted_log_is_refused_with_its_key_version() -> None:
    truth = case(ENCRYPTED)
    assert truth.variables["encrypt_binlog"] == "ON"
    assert "key version 1" in truth.settings["algorithm"]
    with pytest.raises(UnsupportedError, match=r"\bversion 1 of the key\b") as raised:
        json_changes(truth.path)
    assert raised.value.condition == "BINLOG_UNSUPPORTED.ENCRYPTED"
    assert "mysql-bin.000001" in str(raised.value)
