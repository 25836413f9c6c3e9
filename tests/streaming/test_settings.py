from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from binlog_connector.options.option_values import BATCH_ONLY, OPTION_NAMES
from binlog_connector.options.view_options import EVENT_OPTIONS, KAFKA_VALUE, MESSAGE_OPTIONS
from binlog_format.errors import BinlogError, OptionError
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.views.filters import TableFilter
from binlog_streaming.settings import (
    Deletes,
    Job,
    Metrics,
    Mode,
    OnStatement,
    Sink,
    Source,
    Spark,
    Status,
    TableRule,
    Trigger,
    UnknownValues,
    load_job,
    parse_job,
    parse_milliseconds,
)
from binlog_streaming.settings.text import SECTIONS, job_text

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
    assert job.source.options() == {"maxBytesPerTrigger": "512m"}
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
        "maxBytesPerTrigger": "512m",
        "minPartitions": "3",
        "startingGtid": "0-1-2",
    }


def test_values_of_the_source_may_be_toml(tmp_path: Path) -> None:
    schema = tmp_path / "schema.sql"
    text = MINIMAL.replace(
        'path = "log"',
        'path = "log"\nstartingTimestamp = 2026-01-31T12:00:00Z\nignoreDomainIds = [1, 7]\nschemaFile = "schema.sql"\n'
        'timeType = "micros"',
    )
    job = load_job(written(tmp_path, text))
    assert job.source.options() == {
        "startingTimestamp": "2026-01-31T12:00:00+00:00",
        "maxBytesPerTrigger": "512m",
        "ignoreDomainIds": "1,7",
        "schemaFile": str(schema),
        "timeType": "micros",
    }
    assert job.source.decoding().time_type is TimeType.MICROS
    place = MINIMAL.replace('path = "log"', 'path = "log"\nstartingOffsets = { file_no = 3, page = 12, chunk = 0 }')
    options = load_job(written(tmp_path, place)).source.options()
    assert json.loads(options["startingOffsets"]) == {"file_no": 3, "page": 12, "chunk": 0}


def test_every_option_of_the_source_that_a_stream_has_can_be_set() -> None:
    ours = {field.encode_name for field in msgspec.structs.fields(Source)}
    decided = {
        "view",
        "table",
        "tables",
        "includeDdl",
        "includeQuery",
        "includeAbsent",
        "includeSequence",
        "failOnStatement",
        "countOtherTables",
        "tellProblems",
        "definedTables",
        "keptDefinitions",
        "rules",
        "endingOffsets",
        "endingGtid",
        KAFKA_VALUE,
        *MESSAGE_OPTIONS,
        *EVENT_OPTIONS,
        *BATCH_ONLY,
    }
    assert ours == set(OPTION_NAMES) - decided


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_is_explained(section: type[msgspec.Struct]) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    explained = {setting.name for setting in SECTIONS[section]}
    sections = {"source", "sink", "tables", "trigger", "metrics", "lineage", "status", "spark"}
    assert explained == set(fields) - (sections if section is Job else set())
    demo = (CONF / "demo.toml").read_text()
    assert [name for name in explained if not re.search(rf"^(# )?{name} = ", demo, flags=re.MULTILINE)] == []


def some_job(folder: Path) -> Job:
    rules = (
        TableRule(select=r"a\.b'c", mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{table}", keys=("x", 'y"')),
        TableRule(
            select="c",
            deletes=Deletes.MARK,
            on_truncate=OnStatement.FAIL,
            on_drop=OnStatement.APPLY,
            unknown_values=UnknownValues.NULL,
        ),
        TableRule(mode=Mode.SCD2),
    )
    return Job(
        name="every thing",
        source=Source(
            path=str(folder / "lög \\ 'x'"),
            exclude_tables=r"mysql\..*",
            starting_offsets={"file_no": 1, "page": 2, "chunk": 3},
            ignore_domain_ids=(1, 2),
            fail_on_data_loss=False,
            zero_dates=ZeroDates.ERROR,
        ),
        sink=Sink(directory="s3://bucket/x", storage={"KEY": 'a "b"'}, retention="1h"),
        checkpoint=str(folder / "cp"),
        tables=rules,
        trigger=Trigger(available_now=True),
        metrics=Metrics(port=0),
        status=Status(purge_after="36h"),
        spark=Spark(settings={"spark.x": 1, "spark.y": True}),
    )


def test_job_written_down_is_read_back(tmp_path: Path) -> None:
    job = some_job(tmp_path)
    text = job_text(job, rule_comments={1: ["why " * 40]})
    assert parse_job(text, file=tmp_path / "job.toml") == job
    assert max(len(line) for line in text.splitlines()) <= 120


NOT_TOGETHER = ("startingGtid", "startingTimestamp", "schemaFile", "catalog", "columns")
"""These exclude others, or name a file."""


def test_defaults_in_a_written_job_are_the_true_ones(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, MINIMAL))
    text = job_text(job)
    shown = re.sub(r"^# (?=[a-zA-Z_]+ = )", "", text, flags=re.MULTILINE)
    for example in NOT_TOGETHER:
        shown = re.sub(rf"^{example} = ", f"# {example} = ", shown, flags=re.MULTILINE)
    given = tomllib.loads(shown)
    sections = {name: getattr(job, name) for name in ("sink", "trigger", "metrics", "status", "spark")}
    for name, section in sections.items():
        for key, value in given[name].items():
            if key not in ("partition_by", "storage", "settings", "port", "purge_after"):
                assert getattr(section, key) == value
    # Examples are values that can be.
    assert parse_job(shown, file=tmp_path / "job.toml").source.ignore_domain_ids == (7,)


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
    "in the wrong section": (MINIMAL + "checkpoint = 'x'", "UNKNOWN", "sink.checkpoint: .*belongs to the top"),
    "of another section": (MINIMAL + "startingGtid = ''", "UNKNOWN", r"sink.startingGtid: .*belongs into \[source\]"),
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
    "wrong type": (
        MINIMAL + "[[tables]]\nkeys = 'id'",
        "INVALID_VALUE",
        r"tables\[0\]\.keys: expected a list, got a text",
    ),
    "section that is none": ("sink = 1\n" + MINIMAL.partition("[sink]")[0], "INVALID_VALUE", "sink: expected a table"),
    "wrong mode among several": (
        MINIMAL + "[[tables]]\nmode = [\n 'mirror',\n 'changlog']",
        "INVALID_VALUE",
        r"tables\[0\]\.mode\[1\]: expected mirror or changelog or scd2, got 'changlog'. .* mean `changelog`",
    ),
    "wrong format of tables": (
        MINIMAL.replace("directory", "format = 'ice'\ndirectory"),
        "INVALID_VALUE",
        "sink.format: expected delta or iceberg or parquet, got 'ice'",
    ),
    "mask that there is not": (
        MINIMAL + "[[tables]]\nmask = { email = 'md5' }",
        "INVALID_VALUE",
        r"tables\[0\]\.mask\.email: expected null, sha256, last N .*, got 'md5'",
    ),
    "mask of what is not shown": (
        MINIMAL + "[[tables]]\ndrop_columns = ['Email']\nmask = { email = 'null' }",
        "INVALID_VALUE",
        r"tables\[0\]\.mask\.email: email is in drop_columns",
    ),
    "hash without salt": (
        MINIMAL + "[[tables]]\nmask = { email = 'sha256' }",
        "INVALID_VALUE",
        r"tables\[0\]\.salt_variable: the mask sha256 needs",
    ),
    "salt without hash": (
        MINIMAL + "[[tables]]\nsalt_variable = 'SALT'",
        "INVALID_VALUE",
        r"tables\[0\]\.salt_variable: expected the mask sha256 beside it",
    ),
    "number in place of an optional text": (
        MINIMAL + "[status]\npurge_after = 7",
        "INVALID_VALUE",
        r"status\.purge_after: expected a text in quotes, got a whole number$",
    ),
    "number in place of a list": (
        MINIMAL + "[[tables]]\nkeys = 5",
        "INVALID_VALUE",
        r"tables\[0\]\.keys: expected a list, got a whole number$",
    ),
    "predicate that is none": (
        MINIMAL + "[[tables]]\nwhere = 'age > AND'",
        "INVALID_VALUE",
        r"tables\[0\]\.where: at character 7 \(AND\): a text in quotes, a number",
    ),
    "columns both ways": (
        MINIMAL + "[[tables]]\ncolumns = ['id']\ndrop_columns = ['note']",
        "INVALID_VALUE",
        r"tables\[0\]\.drop_columns: expected nothing beside columns",
    ),
    "foreign keys of what is hidden": (
        MINIMAL + "[[tables]]\nforeign_keys = 'apply'\n[[tables]]\nwhere = 'id > 5'",
        "INVALID_VALUE",
        r"tables\[0\]\.foreign_keys: expected fail or ignore beside columns",
    ),
    "foreign keys without generated columns": (
        MINIMAL + "[[tables]]\nforeign_keys = 'apply'\n[[tables]]\ngenerated = 'drop'",
        "INVALID_VALUE",
        r"tables\[0\]\.foreign_keys: expected fail or ignore beside .*generated = \"drop\"",
    ),
    "partitions of what is hidden": (
        MINIMAL + "[[tables]]\non_partition_drop = 'apply'\nwhere = 'id > 5'",
        "INVALID_VALUE",
        r"tables\[0\]\.on_partition_drop: expected fail or keep beside columns",
    ),
    "mirror in parquet": (
        MINIMAL + "format = 'parquet'\n[[tables]]\nmode = ['mirror']",
        "INVALID_VALUE",
        r"tables\[0\]\.mode: expected changelog beside sink.format parquet",
    ),
    "versions in parquet": (
        MINIMAL + "format = 'parquet'\n[[tables]]\nmode = 'scd2'",
        "INVALID_VALUE",
        r"tables\[0\]\.mode: expected changelog beside sink.format parquet, got scd2",
    ),
    "marks in a changelog": (
        MINIMAL + "[[tables]]\n[[tables]]\nmode = 'changelog'\ndeletes = 'mark'",
        "INVALID_VALUE",
        r'tables\[1\]\.deletes: expected mode mirror beside deletes = "mark", got changelog\. .*leave deletes out',
    ),
    "marks beside other modes": (
        MINIMAL + "[[tables]]\nmode = ['scd2', 'changelog']\ntarget = '{mode}/{table}'\ndeletes = 'mark'",
        "INVALID_VALUE",
        r"tables\[0\]\.deletes: .*got scd2 and changelog",
    ),
    "keys of a changelog": (
        MINIMAL + "[[tables]]\nmode = 'changelog'\nkeys = ['id']",
        "INVALID_VALUE",
        r"tables\[0\]\.keys: expected mode mirror or scd2 beside keys, got changelog\. .*leave keys out",
    ),
    "values in a changelog": (
        MINIMAL + "[[tables]]\nmode = 'changelog'\nunknown_values = 'null'",
        "INVALID_VALUE",
        r"tables\[0\]\.unknown_values: expected mode mirror or scd2 beside unknown_values = 'null', got changelog",
    ),
    "marked rows in plain files": (
        MINIMAL + "format = 'parquet'\nmerge = 'mark'\n[[tables]]\nmode = 'changelog'",
        "INVALID_VALUE",
        r"sink\.merge: expected auto or rewrite beside sink.format parquet, got mark\. .*leave merge out",
    ),
    "ids of rows in plain files": (
        MINIMAL + "format = 'parquet'\nrow_ids = true\n[[tables]]\nmode = 'changelog'",
        "INVALID_VALUE",
        r"sink\.row_ids: expected false beside sink.format parquet\. .*leave row_ids out",
    ),
    "ids of rows without a REST catalog": (
        MINIMAL + "format = 'iceberg'\nrow_ids = true",
        "INVALID_VALUE",
        r"sink\.row_ids: expected false without a REST catalog",
    ),
    "variants in Iceberg": (
        MINIMAL + "format = 'iceberg'\njson = 'variant'",
        "INVALID_VALUE",
        r"sink\.json: expected text beside sink.format iceberg, got variant\. .*leave json out",
    ),
    "another catalog of Delta": (
        MINIMAL + "[sink.catalog]\ntype = 'rest'\nuri = 'http://localhost'\nwarehouse = 'main'",
        "INVALID_VALUE",
        r"sink\.catalog: expected type = \"unity\", uri, warehouse, and token or nothing else, beside .* delta",
    ),
    "catalog of Parquet": (
        MINIMAL + "format = 'parquet'\n[sink.catalog]\ntype = 'rest'",
        "INVALID_VALUE",
        r"sink\.catalog: expected nothing beside sink.format parquet, which has no catalog",
    ),
    "Iceberg in an object store without a catalog": (
        MINIMAL.replace('"tables"', '"s3://lake/t"') + "format = 'iceberg'",
        "INVALID_VALUE",
        r"sink\.directory: expected a folder, got s3://lake/t\. .*\[sink.catalog\]",
    ),
    "partition that nobody knows": (
        MINIMAL + "[[tables]]\npartition_by = ['id', 'week(at)']",
        "INVALID_VALUE",
        r"tables\[0\]\.partition_by\[1\]: expected a column, year\(c\), .* got 'week\(at\)'",
    ),
    "transform in Delta": (
        MINIMAL + "[[tables]]\npartition_by = ['day(at)']",
        "INVALID_VALUE",
        r"tables\[0\]\.partition_by: expected columns beside sink.format delta, got day\(at\)",
    ),
    "partitions of plain files": (
        MINIMAL + "format = 'parquet'\n[[tables]]\nmode = 'changelog'\npartition_by = ['id']",
        "INVALID_VALUE",
        r"tables\[0\]\.partition_by: expected nothing beside sink.format parquet",
    ),
    "nothing on a truncate": (
        MINIMAL + "[[tables]]\non_truncate = ''",
        "INVALID_VALUE",
        r"tables\[0\]\.on_truncate: expected apply or ignore or fail, got ''",
    ),
    "wrong word on a drop": (
        MINIMAL + "[[tables]]\non_drop = 'ignored'",
        "INVALID_VALUE",
        r"tables\[0\]\.on_drop: .* mean `ignore`",
    ),
    "writer of a former version": (
        MINIMAL + "writer = 'spark'",
        "UNKNOWN",
        r"sink\.writer: no such setting\. Leave it out: .* go on, with the same checkpoint",
    ),
    "value of the source": (
        MINIMAL.replace("path =", "bound = 'seald'\npath ="),
        "INVALID_VALUE",
        'source.bound: expected visible or sealed, got "seald". Did you mean sealed?',
    ),
    "start said twice": (
        MINIMAL.replace("path =", "startingGtid = '0-1-1'\nstartingTimestamp = 5\npath ="),
        "INVALID_VALUE",
        "source.startingGtid: option startingGtid .* and option startingTimestamp .*: a query has one start",
    ),
    "wrong time": (MINIMAL + '[status]\npurge_after = "soon"', "INVALID_VALUE", "status.purge_after: .* got 'soon'"),
    "wrong port": (MINIMAL + "[metrics]\nport = 99999", "INVALID_VALUE", "metrics.port: .* 0 to 65535, got 99999"),
    "one tables section": (MINIMAL + "[tables]\nselect = 'a('", "INVALID_VALUE", r"tables\[0\]\.select: "),
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
    "not TOML": ("a == 1", "INVALID_VALUE", "not TOML: invalid value at column 4$"),
    "not TOML at its end": (MINIMAL + "a = [1,", "INVALID_VALUE", "not TOML: "),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_names_file_key_and_what_is_near(name: str, tmp_path: Path) -> None:
    text, subclass, told = MISTAKES[name]
    path = written(tmp_path, text)
    with pytest.raises(OptionError, match=rf"{re.escape(str(path))}(:\d+)?: {told}") as caught:
        load_job(path)
    assert caught.value.subclass == subclass
    assert "\n" not in str(caught.value)


# MINIMAL has the lines checkpoint, [source], path, [sink], directory.
LINES = {
    "unknown name": 7,
    "unknown section": 6,
    "unknown source option": 3,
    "unknown name in a list": 8,
    "missing": None,
    "missing in a section": 2,
    "missing variable": 3,
    "wrong type": 7,
    "wrong mode": 7,
    "wrong mode among several": 9,
    "wrong retention": 5,
    "wrong target": 7,
    "no tables": 1,
    "not TOML": 1,
    "not TOML at its end": 6,
    "value of the source": 3,
    "start said twice": 3,
    "mirror in parquet": 8,
    "versions in parquet": 8,
    "marks in a changelog": 9,
    "keys of a changelog": 8,
    "values in a changelog": 8,
    "writer of a former version": 6,
    "nothing on a truncate": 7,
    "one tables section": 7,
    "in the wrong section": 6,
    "wrong format of tables": 5,
}


@pytest.mark.parametrize("name", LINES)
def test_mistake_names_its_line(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, MISTAKES[name][0])
    line = LINES[name]
    with pytest.raises(OptionError) as caught:
        load_job(path)
    assert str(caught.value.at) == (str(path) if line is None else f"{path}:{line}")


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match=r"PATH_NOT_FOUND\] .*absent\.toml"):
        load_job(tmp_path / "absent.toml")
    with pytest.raises(OptionError, match="not a job file"):
        load_job(tmp_path)


@pytest.mark.parametrize("path", sorted(CONF.glob("*.toml")), ids=lambda path: path.name)
def test_shipped_jobs_load_and_say_the_true_defaults(path: Path, tmp_path: Path) -> None:
    job = load_job(path)
    text = path.read_text()
    uncommented = re.sub(r"^# (?=[a-zA-Z_]+ = )", "", text, flags=re.MULTILINE)
    for example in NOT_TOGETHER:
        uncommented = re.sub(rf"^{example} = ", f"# {example} = ", uncommented, flags=re.MULTILINE)
    assert load_job(written(tmp_path, uncommented)).tables[0].target == job.tables[0].target
    for section, default in (("sink", job.sink), ("spark", job.spark), ("trigger", job.trigger)):
        for name, value in tomllib.loads(uncommented).get(section, {}).items():
            in_section = text.partition(f"[{section}]")[2].partition("\n[")[0]
            is_default = re.search(rf"^# {name} = ", in_section, flags=re.MULTILINE)
            if is_default and name not in ("partition_by", "storage", "settings", "port"):
                assert getattr(default, name) == value


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("2s", 2000), ("1.5h", 5_400_000), (" 7 d ", 604_800_000), ("0s", 0)]
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_milliseconds(text) == milliseconds


@pytest.mark.parametrize("name", ["shop._orders_gho", "shop._orders_new", "shop.__orders_new", "a.b"])
def test_source_lets_tables_in_that_may_take_the_place_of_wanted_ones(name: str, tmp_path: Path) -> None:
    job = load_job(written(tmp_path, MINIMAL + "[[tables]]\nselect = 'a.b'\n"))
    wanted = TableFilter(job.source_options()["tables"])
    assert wanted.accepts_name(*name.split("."))
    assert not wanted.accepts_name("shop", "orders")
    assert not wanted.accepts_name("shop", "orders_new")
    assert not wanted.accepts_name("shop", "_orders_ghc")
