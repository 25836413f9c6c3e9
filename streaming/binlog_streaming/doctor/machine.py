"""Examination of the machine: Python, packages, Java, compiled kernels, its own name: `machine_findings`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import binlog_format
from binlog_connector.installing import install_hint
from binlog_streaming.doctor import DoctorFinding, Health
from binlog_streaming.job_state.checkpoint import may_write, nearest_place

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "binlog-stream"
EXTRAS = {
    "spark": "jobs that keep tables of a database, and the Spark source",
    "delta": "Delta tables",
    "iceberg": "Iceberg tables",
    "server": "snapshot, and doctor --server",
    "metrics": "metrics for Prometheus",
    "otel": "metrics for OpenTelemetry",
    "lineage": "events for OpenLineage",
    "status": "the status page",
    "rdkafka": "the faster client of Kafka",
    "plot": "pictures of map",
}
"""Purpose of each extra."""

JAVA_FIRST = 17
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Needs:
    """Needs of jobs on the machine.

    Attributes:
        extras: Of this package; None: not known, whatever is installed counts.
        java: Whether Spark is started.
        packages: Spark's `spark.jars.packages`, as the job file has it.
    """

    extras: frozenset[str] | None = None
    java: bool = False
    packages: str = ""


def machine_findings(needs: Needs) -> Iterator[DoctorFinding]:
    """Look at the machine."""
    yield _python()
    yield from _packages(needs)
    if needs.java or (needs.extras is None and find_spec("pyspark") is not None):
        yield _java()
        yield _own_name()
    if needs.packages:
        yield from _jars(needs.packages)
    yield _kernels()


def _finding(what: str, health: Health, found: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding("machine", what, health, found, fix)


def _python() -> DoctorFinding:
    wanted = metadata(NAME)["Requires-Python"]
    found = platform.python_version()
    if SpecifierSet(wanted).contains(found, prereleases=True):
        return _finding("Python", Health.OK, found)
    return _finding("Python", Health.WRONG, f"{found}, expected {wanted}", "Install it in a newer Python")


def _packages(needs: Needs) -> Iterator[DoctorFinding]:
    """Check that the packages of each extra are installed, in versions that this package has been tried with."""
    wanted: dict[str, list[Requirement]] = {"": []}
    for text in requires(NAME) or ():
        requirement = Requirement(text)
        extras = [extra for extra in EXTRAS if requirement.marker and requirement.marker.evaluate({"extra": extra})]
        needs_none = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        for extra in [""] if needs_none else extras:
            wanted.setdefault(extra, []).append(requirement)
    for extra in ("", *EXTRAS):
        is_needed = extra == "" or (needs.extras is not None and extra in needs.extras)
        requirements = [requirement for requirement in wanted.get(extra, ()) if requirement.name != NAME]
        if requirements and (is_needed or needs.extras is None):
            yield _extra(extra, requirements, is_needed=is_needed)


def _extra(extra: str, requirements: list[Requirement], *, is_needed: bool) -> DoctorFinding:
    what = f"packages of [{extra}]" if extra else "packages"
    missing, wrong, found = [], [], []
    for requirement in requirements:
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            missing.append(requirement.name)
            continue
        found.append(f"{requirement.name} {installed}")
        if not requirement.specifier.contains(installed, prereleases=True):
            wrong.append(f"{requirement.name} {installed}, expected {requirement.specifier}")
    fix = f"Install it: {install_hint(extra)}" if extra else f"Install {NAME} again"
    if wrong:
        return _finding(what, Health.WRONG if is_needed else Health.WARNING, "; ".join(wrong), fix)
    if missing:
        text = f"{', '.join(missing)} not installed"
        if is_needed:
            return _finding(what, Health.WRONG, text, fix)
        return _finding(what, Health.OK, f"{text}: needed for {EXTRAS[extra]}", fix)
    return _finding(what, Health.OK, ", ".join(found))


def _java() -> DoctorFinding:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java") if home is None else str(Path(home) / "bin" / "java")
    where = "PATH" if home is None else f"JAVA_HOME={home}"
    fix = f"Install a Java runtime, {JAVA_FIRST} or newer (deploy/ensure-java.sh finds one or fetches it)"
    if program is None or not os.access(program, os.X_OK):
        return _finding("Java", Health.WRONG, f"none in {where}", fix)
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _finding("Java", Health.WRONG, f"{program} does not run: {error}", fix)
    told = _JAVA_VERSION.search(done.stderr + done.stdout)
    if told is None:
        return _finding("Java", Health.WRONG, f"{program} does not tell its version", fix)
    if int(told[1]) < JAVA_FIRST:
        return _finding("Java", Health.WRONG, f"{told[1]} ({program}), expected {JAVA_FIRST} or newer", fix)
    return _finding("Java", Health.OK, f"{told[1]} ({program})")


def _own_name() -> DoctorFinding:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        fix = f"Add '127.0.0.1 {name}' to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1 for Spark programs of your own"
        return _finding("host name", Health.WARNING, f"{name} is no address: {error}", fix)
    return _finding("host name", Health.OK, name)


def _jars(packages: str) -> Iterator[DoctorFinding]:
    """Jars that a job lets Spark fetch: they are made for one version of Scala."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return
    found = [re.search(r"scala-library-(\d+\.\d+)", jar.name) for jar in (Path(spec.origin).parent / "jars").glob("*")]
    scala = next((match[1] for match in found if match), None)
    for package in filter(None, map(str.strip, packages.split(","))):
        made_for = re.search(r"_(\d+\.\d+):", package)
        if scala is None or made_for is None or made_for[1] == scala:
            yield _finding("spark.jars.packages", Health.OK, package)
        else:
            fix = f"Name the one for Scala {scala}: {package.replace(f'_{made_for[1]}:', f'_{scala}:')}"
            yield _finding("spark.jars.packages", Health.WRONG, f"{package} is not for Scala {scala}", fix)


def _kernels() -> DoctorFinding:
    """Check that the kernel cache is writable: otherwise every start compiles for half a minute."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        fix = "Unset NUMBA_DISABLE_JIT: it is for debugging"
        return _finding("kernels", Health.WRONG, "not compiled, a hundred times slower", fix)
    own = Path(binlog_format.__file__).parent
    given = os.environ.get("NUMBA_CACHE_DIR")
    folder = own if given is None else Path(given)
    count = sum(1 for _ in folder.rglob("*.nbi")) if folder.is_dir() else 0
    if may_write(nearest_place(folder)):
        if count:
            return _finding("kernels", Health.OK, f"{count} in {folder}")
        text = f"none yet in {folder}: the first start compiles them, half a minute"
        return _finding("kernels", Health.OK, text)
    fix = "Set NUMBA_CACHE_DIR to a folder that the user may write to"
    text = f"{count} in {folder}, which cannot be written to"
    return _finding("kernels", Health.WARNING, f"{text}: what is missing is compiled again at each start", fix)
