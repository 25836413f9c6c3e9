"""Requirements of optional parts, and how to install them: `install_hint(extra)`, `require(module)`, `require_java`."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from binlog_format.errors import MachineError, OptionError

_NAME = "binlog-stream"
_EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "deltalake": "delta",
    "obstore": "spark",
    "pyiceberg": "iceberg",
    "sqlalchemy": "iceberg",
    "pymysql": "server",
    "matplotlib": "plot",
    "prometheus_client": "metrics",
    "opentelemetry": "otel",
    "openlineage": "lineage",
    "confluent_kafka": "rdkafka",
    "fastavro": "avro",
    "starlette": "status",
    "uvicorn": "status",
}
"""Optional modules, and the extra of this package that brings them."""


def install_hint(extra: str) -> str:
    """The command that installs this package again with *extra*, from where it came."""
    try:
        package = distribution(_NAME)
        origin = json.loads(package.read_text("direct_url.json") or "{}")
        installer = (package.read_text("INSTALLER") or "").strip()
    except (PackageNotFoundError, ValueError):
        origin, installer = {}, ""
    return f"{'uv pip' if installer == 'uv' else 'pip'} install {_requirement(extra, origin)}"


def _requirement(extra: str, origin: dict[str, object]) -> str:
    url = str(origin.get("url", ""))
    folder = origin.get("dir_info")
    if isinstance(folder, dict) and url.startswith("file://"):
        return f"{'-e ' if folder.get('editable') else ''}'{url.removeprefix('file://')}[{extra}]'"
    vcs = origin.get("vcs_info")
    if isinstance(vcs, dict):
        url = f"{vcs.get('vcs', 'git')}+{url}"
    return f"'{_NAME}[{extra}] @ {url}'" if url else f"'{_NAME}[{extra}]'"


def missing_extra(module: str) -> OptionError | None:
    """The named error for a module that is not installed; None: it is none of an optional part."""
    extra = _EXTRAS.get(module.partition(".")[0])
    if extra is None:
        return None
    return OptionError(
        "MISSING", f"{module} is not installed, and this needs it", hint=f"Install it: {install_hint(extra)}"
    )


def require(module: str) -> None:
    """See that an optional module can be imported, without the time that it takes."""
    if find_spec(module) is None:
        error = missing_extra(module)
        assert error is not None, f"{module} is no part of an extra"
        raise error


def require_java() -> None:
    """See that there is a Java runtime, which Spark needs."""
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")):
        raise MachineError(
            "NO_JAVA",
            "Spark does not start: there is no Java runtime in PATH or JAVA_HOME",
            hint="Debian, Ubuntu: apt-get install openjdk-17-jre-headless, or newer",
        )
