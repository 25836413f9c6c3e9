"""The settings in `docs/job-file.md`, made from the model; `python -m tests.docs.settings_reference` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from binlog_streaming.settings import Job, Metrics, Sink, Source, Spark, TableRule, Trigger
from binlog_streaming.settings.model import Lineage, Status
from binlog_streaming.settings.text import RULES_COMMENT, SECTIONS, default_of, toml_value
from tests.docs.markdown import REPO

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings.table_settings import Setting

PAGE: Path = REPO / "docs" / "job-file.md"
BEGIN = "<!-- Made by `python -m tests.docs.settings_reference` from streaming/binlog_streaming/settings. -->\n"
END = "<!-- end -->\n"
HEAD = "| setting | default, or an example | meaning |\n|---|---|---|\n"
TITLES: dict[type[msgspec.Struct], str] = {
    Job: "At the top",
    Source: "`[source]`: the log",
    TableRule: "`[[tables]]`: which tables, and how",
    Sink: "`[sink]`: where the tables go",
    Trigger: "`[trigger]`: when a batch starts",
    Metrics: "`[metrics]`: for Prometheus and OpenTelemetry",
    Lineage: "`[lineage]`: for OpenLineage",
    Status: "`[status]`: how safe the job is",
    Spark: "`[spark]`: the session, when the job starts its own",
}
NOTES: dict[type[msgspec.Struct], str] = {
    TableRule: RULES_COMMENT.removeprefix("Which tables, and how. "),
}


def settings_text() -> str:
    """Headings and tables of all sections."""
    parts = []
    for section, settings in SECTIONS.items():
        note = f"{NOTES[section]}\n\n" if section in NOTES else ""
        rows = "\n".join(_row(section, setting) for setting in settings)
        parts.append(f"### {TITLES[section]}\n\n{note}{HEAD}{rows}\n")
    return "\n".join(parts)


def page_text(page: str) -> str:
    """*page* with its settings made anew."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{settings_text()}\n{END}{rest.split(END, 1)[1]}"


def _row(section: type[msgspec.Struct], setting: Setting) -> str:
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    field = fields[setting.name]
    default = default_of(field)
    if field.required:
        shown = "must be set"
    elif default in (None, (), {}, "") or setting.example is not None:
        shown = f"e.g. `{setting.example}`"
    else:
        shown = f"`{toml_value(default)}`"
    meaning = setting.comment.replace("|", r"\|")
    return f"| `{setting.name}` | {shown} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text()))
