from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from binlog_format.errors import BinlogError, OptionError
from binlog_streaming.settings import Mode, load_job, parse_milliseconds

CONF = Path(__file__).resolve().parents[2] / "conf"
MINIMAL = 'checkpoint = "check"\n[source]\npath = "log"\n[sink]\ndirectory = "tables"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_minimal_job_has_defaults_and_paths_start_at_its_folder(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, MINIMAL))
    assert job.name == "job"
    assert job.checkpoint == str(tmp_path / "check")
    assert job.source.path == str(tmp_path / "log")
    assert job.sink.directory == str(tmp_path / "tables")
    assert job.source.options() == {"maxBytesPerTrigger": "64m"}
    assert [rule.modes for rule in job.tables] == [(Mode.MIRROR,)]
    assert (job.trigger.interval_ms, job.sink.retention_hours) == (2000, 168)


def test_relative_job_file_is_found_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, MINIMAL)
    monkeypatch.chdir(tmp_path.parent)
    assert load_job(Path(tmp_path.name) / "job.toml").source.path == str(tmp_path / "log")


def test_urls_and_absolute_paths_stay(tmp_path: Path) -> None:
    text = MINIMAL.replace('"log"', '"s3://bucket/log"').replace('"tables"', '"/lake/tables"')
    job = load_job(written(tmp_path, text))
    assert (job.source.path, job.sink.directory) == ("s3://bucket/log", "/lake/tables")


def test_environment_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_DIRECTORY", "/var/lib/mysql")
    text = MINIMAL.replace('"log"', '"${LOG_DIRECTORY}/x"').replace('"tables"', '"${NOT_SET:-lake}"')
    job = load_job(written(tmp_path, text))
    assert (job.source.path, job.sink.directory) == ("/var/lib/mysql/x", str(tmp_path / "lake"))


def test_source_options_have_the_names_of_the_spark_source(tmp_path: Path) -> None:
    text = MINIMAL.replace(
        'path = "log"', 'path = "log"\nfailOnDataLoss = false\nminPartitions = 3\nstartingGtid = "0-1-2"'
    )
    assert load_job(written(tmp_path, text)).source.options() == {
        "failOnDataLoss": "false",
        "maxBytesPerTrigger": "64m",
        "minPartitions": "3",
        "startingGtid": "0-1-2",
    }


def test_one_tables_section_is_a_list_of_one(tmp_path: Path) -> None:
    text = MINIMAL + '[tables]\nselect = "a[.]b{1,2}"\nmode = ["mirror", "changelog"]\ntarget = "{table}_{mode}"\n'
    (rule,) = load_job(written(tmp_path, text)).tables
    assert rule.modes == (Mode.MIRROR, Mode.CHANGELOG)


MISTAKES = {
    "unknown name": (MINIMAL + "[trigger]\nintervall = '2s'", "UNKNOWN", "trigger.intervall: .* mean `interval`"),
    "unknown section": (MINIMAL + "[triger]\ninterval = '2s'", "UNKNOWN", "triger: .* mean `trigger`"),
    "unknown source option": (
        MINIMAL.replace("path =", "maxBytesPertrigger = 1\npath ="),
        "UNKNOWN",
        "source.maxBytesPertrigger: .* mean `maxBytesPerTrigger`",
    ),
    "unknown name in a list": (
        MINIMAL + "[[tables]]\n[[tables]]\nmodes = 'mirror'",
        "UNKNOWN",
        r"tables\[1\]\.modes: .* mean `mode`",
    ),
    "nothing near": (
        MINIMAL + "[spark]\nzzz = 1",
        "UNKNOWN",
        "spark.zzz: .*Known here: master",
    ),
    "missing": ('[source]\npath = "p"\n[sink]\ndirectory = "d"', "MISSING", "checkpoint: "),
    "missing in a section": (MINIMAL.replace('path = "log"', ""), "MISSING", "source.path: "),
    "missing variable": (
        MINIMAL.replace('"log"', '"${NOT_SET}"'),
        "MISSING",
        "source.path: .*NOT_SET",
    ),
    "wrong type": (MINIMAL + "[[tables]]\nkeys = 'id'", "INVALID_VALUE", r"tables\[0\]\.keys: expected `array`"),
    "section that is none": ("sink = 1\n" + MINIMAL.partition("[sink]")[0], "INVALID_VALUE", "sink: expected `object`"),
    "wrong mode": (MINIMAL + "[[tables]]\nmode = 'miror'", "INVALID_VALUE", r"tables\[0\]\.mode: .* mean `mirror`"),
    "wrong interval": (MINIMAL + "[trigger]\ninterval = '2 weeks'", "INVALID_VALUE", "trigger.interval: .*'2 weeks'"),
    "wrong retention": (MINIMAL.replace("[sink]", "[sink]\nretention = '-1h'"), "INVALID_VALUE", "sink.retention: "),
    "wrong expression": (MINIMAL + "[[tables]]\nselect = 'a(b'", "INVALID_VALUE", r"tables\[0\]\.select: .*a\(b"),
    "no tables": ("tables = []\n" + MINIMAL, "INVALID_VALUE", "tables: expected at least one"),
    "small files": (
        MINIMAL.replace("[sink]", "[sink]\ntarget_file_size = 5"),
        "INVALID_VALUE",
        "sink.target_file_size: ",
    ),
    "wrong target": (MINIMAL + "[[tables]]\ntarget = '{tabel}'", "INVALID_VALUE", r"tables\[0\]\.target: .*\{tabel\}"),
    "modes that meet": (
        MINIMAL + "[[tables]]\nmode = ['mirror', 'changelog']",
        "INVALID_VALUE",
        r"tables\[0\]\.target: .*\{mode\}",
    ),
    "not TOML": ("a == 1", "INVALID_VALUE", "not TOML: .*line 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_names_file_key_and_what_is_near(name: str, tmp_path: Path) -> None:
    text, subclass, told = MISTAKES[name]
    path = written(tmp_path, text)
    with pytest.raises(OptionError, match=rf"{re.escape(str(path))}: {told}") as caught:
        load_job(path)
    assert caught.value.subclass == subclass
    assert "\n" not in str(caught.value)


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match=r"PATH_NOT_FOUND\] .*absent\.toml"):
        load_job(tmp_path / "absent.toml")
    with pytest.raises(OptionError, match="not a job file"):
        load_job(tmp_path)


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.name)
def test_shipped_jobs_load_and_say_the_true_defaults(path: Path, tmp_path: Path) -> None:
    job = load_job(path)
    text = path.read_text()
    uncommented = re.sub(r"^# (?=[a-zA-Z_]+ = )", "", text, flags=re.MULTILINE).replace('startingGtid = "', '#"')
    assert load_job(written(tmp_path, uncommented)).tables[0].target == job.tables[0].target
    for section, default in (("sink", job.sink), ("spark", job.spark), ("trigger", job.trigger)):
        for name, value in tomllib.loads(uncommented)[section].items():
            if re.search(rf"^# {name} = ", text, flags=re.MULTILINE) and name not in ("storage", "settings"):
                assert getattr(default, name) == value


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("2s", 2000), ("1.5h", 5_400_000), (" 7 d ", 604_800_000), ("0s", 0)]
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_milliseconds(text) == milliseconds
