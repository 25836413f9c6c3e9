"""`files`, `verify` and `tail` over a structured log in an object store: as over the same files here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.fs
import pytest

from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_lab.simulator.structured.program import LoggingProgram
from tests.program import run_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.object_store import ObjectStore

pytestmark = pytest.mark.server


@pytest.fixture
def url(request: pytest.FixtureRequest, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in object_store.options().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{request.node.name.replace('_', '-')}"


def upload(folder: Path, url: str) -> None:
    """Make the objects of *url* the files of *folder*, and no others."""
    filesystem, root = pyarrow.fs.FileSystem.from_uri(url)
    here = {file.name for file in folder.iterdir()}
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True)):
        if info.base_name not in here:
            filesystem.delete_file(info.path)
    for name in here:
        with filesystem.open_output_stream(f"{root}/{name}") as stream:
            stream.write((folder / name).read_bytes())


def shown(*arguments: object) -> str:
    """Standard output of a command that ends well."""
    result = run_program(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_commands_show_of_a_bucket_what_they_show_of_a_folder(url: str, tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        for _ in range(3):
            program.log(30)
            program.rotate()
        program.log(5)
    upload(tmp_path / "log", url)
    for command in (
        ("files", "-o", "jsonl"),
        ("verify", "-o", "jsonl"),
        ("tail", "--from", "earliest", "--once", "-o", "jsonl"),
    ):
        here, there = (shown(command[0], place, *command[1:]) for place in (tmp_path / "log", url))
        assert there.replace(url, "LOG") == here.replace(str(tmp_path / "log"), "LOG")
    assert len(shown("tail", url, "--from", "earliest", "--once", "-o", "jsonl").splitlines()) == 95


def test_damage_in_a_bucket_is_named_with_its_place(url: str, tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(30)
        old = program.rotate()
        program.log(5)
    content = bytearray(old.read_bytes())
    content[-200:-190] = b"\xff" * 10
    old.write_bytes(content)
    upload(tmp_path / "log", url)
    result = run_program("verify", url)
    assert result.returncode == 1
    assert f"{url}/{old.name}" in result.stdout.replace("\n", "")
    assert "BAD_ENTRY" in result.stdout


def test_tail_goes_on_where_it_was_as_objects_are_written_anew(url: str, tmp_path: Path) -> None:
    saved = tmp_path / "offset.json"
    numbers: list[int] = []
    with LoggingProgram(tmp_path / "log") as program:
        for turn in range(4):
            program.log(7)
            if turn % 2:
                program.rotate()
                program.log(2)
            upload(tmp_path / "log", url)
            lines = shown("tail", url, "--from", "earliest", "--resume", saved, "--once", "-o", "jsonl").splitlines()
            numbers += [json.loads(line)["args"][0] for line in lines]
        assert sorted(numbers) == list(range(program.count))
