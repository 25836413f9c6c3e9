"""The container image: everything of it that can be checked without an engine to build it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.docs.markdown import table_rows
from tests.streaming.tables.jobs.test_job import write_job
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, truth

REPO = Path(__file__).parents[2]
DOCKERFILE = (REPO / "deploy/image/Dockerfile").read_text()
KERNEL = """
import zlib
import numpy as np
from binlog_format.events.checksum_kernels import crc32_by_products, has_products
from binlog_format.innodb.pages.checksum_kernels import count_good_pages
from binlog_format.writing_kernels import put_digits
put_digits(np.empty(32, dtype=np.uint8), 0, np.uint64(42))
data = np.full(1000, 7, dtype=np.uint8)
assert has_products() and crc32_by_products(data, 0, 1000) == zlib.crc32(data)
assert count_good_pages(np.zeros(1 << 14, dtype=np.uint8), 1 << 14) == 0
used = put_digits, crc32_by_products, count_good_pages
print(*(sum(getattr(one.prepared().stats, name).values()) for name in ("cache_hits", "cache_misses") for one in used))
"""


def constraints() -> dict[str, Version]:
    lines = (REPO / "deploy/image/constraints.txt").read_text().splitlines()
    pins = (line.split()[0].split("==") for line in lines if not line.startswith("#"))
    return {name: Version(version) for name, version in pins}


def dependencies() -> list[Requirement]:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    extras = [one for name, some in project["optional-dependencies"].items() if name != "all" for one in some]
    found = [Requirement(one) for one in (*project["dependencies"], *extras)]
    return [one for one in found if one.name != project["name"]]  # an extra that includes another one


@pytest.mark.parametrize("dependency", dependencies(), ids=lambda one: one.name)
def test_every_dependency_has_a_version_that_suits(dependency: Requirement) -> None:
    name = re.sub(r"[-_.]+", "-", dependency.name).lower()
    assert dependency.specifier.contains(constraints()[name])


def test_every_version_has_the_hash_of_its_file() -> None:
    lines = (REPO / "deploy/image/constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line)] == []
    assert len(pins) > 70


def test_every_package_has_its_licence_on_the_page() -> None:
    rows = table_rows("docs/security.md", "## Parts and licences")
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row[1])]
    assert sorted(listed) == sorted(constraints())
    assert all(row[0] for row in rows)


BILL = [sys.executable, str(REPO / "deploy/image/bill_of_materials.py")]


def parts_of(bill: str) -> dict[str, Any]:
    """Components of a bill of materials, by name; each with one hash and what it states of its licence."""
    found = json.loads(bill)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"]["name"] == "binlog-stream"
    return {part["name"]: part for part in found["components"]}


@pytest.mark.skipif(
    find_spec("cyclonedx") is None and os.environ.get("CI") != "true", reason="cyclonedx-python-lib is missing"
)
def test_the_bill_of_materials_has_every_part_with_licence_and_hash(tmp_path: Path) -> None:
    """Of this environment, whose versions may be others than those of the image: then it is refused."""
    lines = [line for line in (REPO / "deploy/image/constraints.txt").read_text().splitlines() if "==" in line]
    pins = {name: rest.partition(" ")[2] for name, _, rest in (line.partition("==") for line in lines)}
    installed = tmp_path / "constraints.txt"
    installed.write_text("".join(f"{name}=={version(name)} {rest}\n" for name, rest in pins.items()))
    done = subprocess.run([*BILL, sys.prefix, installed], capture_output=True, text=True, check=True)
    parts = parts_of(done.stdout)
    assert {name: part["version"] for name, part in parts.items()} == {name: version(name) for name in pins}
    for name, part in parts.items():
        assert f"--hash=sha256:{part['hashes'][0]['content']}" == pins[name]
        assert part["purl"] == f"pkg:pypi/{name}@{version(name)}"
    on_page = {
        name: row[0]
        for row in table_rows("docs/security.md", "## Parts and licences")
        for name in re.findall(r"`([^`]+)`", row[1])
    }
    for name, part in parts.items():
        stated = [
            one.get("expression") or one["license"].get("id") or one["license"]["name"] for one in part["licenses"]
        ]
        assert any(on_page[name].split(" (")[0] in one for one in stated), (name, stated)
    installed.write_text(installed.read_text().replace("==", "==0!", 1))
    refused = subprocess.run([*BILL, sys.prefix, installed], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert re.search(r"annotated-doc 0!\S+ is installed as \S+: install what constraints.txt names", refused.stderr)


def dockerfile_step(word: str) -> str:
    """The shell command of the step of the Dockerfile that has *word* in it."""
    (step,) = [one for one in re.findall(r"^RUN ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE) if word in one]
    return str(step).replace("\\\n", " ")


@pytest.mark.thorough
def test_the_steps_of_the_dockerfile_install_the_program(tmp_path: Path) -> None:
    """In a fresh environment, with files of the hashes alone: the index of packages has to be reachable."""
    folder = tmp_path / "binlog-stream"
    for word in ("python -m venv /opt/binlog-stream", "--require-hashes", "python -m venv /opt/parts"):
        command = dockerfile_step(word).replace("/opt/", f"{tmp_path}/")
        command = command.replace("python -m venv", f"{sys.executable} -m venv").replace("--no-cache-dir", "")
        subprocess.run(["sh", "-c", command], cwd=REPO, check=True, timeout=600)
    done = subprocess.run(
        [folder / "bin/binlog-stream", "files", OLTP], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mysql-bin.000001" in done.stdout
    parts = parts_of((folder / "bill-of-materials.cdx.json").read_text())
    assert {name: Version(part["version"]) for name, part in parts.items()} == constraints()


def test_what_is_copied_is_there_and_is_not_ignored() -> None:
    copied = [
        part for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for part in line.split()[:-1]
    ]
    assert "format" in copied
    assert [part for part in copied if not (REPO / part).exists()] == []
    ignored = (REPO / ".dockerignore").read_text().splitlines()
    assert [part for part in copied if f"!{part}" not in ignored] == []
    # Kernels are compiled with logs in tests/data.
    assert [line for line in ignored if line.partition("/")[0] in copied] == []
    package = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {Path(one).parts[0] for one in package["only-include"]}
    assert folders <= set(copied)


def test_the_build_installs_what_it_calls() -> None:
    """What compiles the kernels is part of the tests, and imports what jobs do without."""
    module = re.search(r"python -m (tests\.\w+)", DOCKERFILE)
    added = re.search(r"pip install --no-cache-dir ([a-z ]+) \\", DOCKERFILE)
    assert module is not None
    assert added is not None
    packages = packages_distributions()
    needed = {name.lower() for one in imported_by(module[1]) for name in packages.get(one, ())}
    assert {"hypothesis", "numpy"} <= needed
    assert needed - set(constraints()) - set(added[1].split()) - {"binlog-stream"} == set()


def imported_by(first: str) -> set[str]:
    """Top-level names of what a module of the tests imports, and all modules of theirs that it imports."""
    found: set[str] = set()
    waiting, seen = [first], {first}
    while waiting:
        file = REPO / (waiting.pop().replace(".", "/") + ".py")
        if not file.exists():
            continue  # a package, or a name in a module
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {name.partition(".")[0] for name in names}
            new = [name for name in names if name.startswith("tests.") and name not in seen]
            seen.update(new)
            waiting += new
    return found


def test_the_program_does_not_run_as_root() -> None:
    last_stage = DOCKERFILE.rpartition("FROM ")[2]
    assert re.search(r"^USER 10001:10001$", last_stage, re.MULTILINE)
    assert last_stage.index("USER ") < last_stage.index("ENTRYPOINT ")


def test_both_stages_compile_for_the_same_processor() -> None:
    for name in ("KERNEL_CPU", "KERNEL_FEATURES"):
        assert len(set(re.findall(rf"^ARG {name}=(.*)$", DOCKERFILE, re.MULTILINE))) == 1


def test_kernels_that_the_image_has_compiled_are_loaded(tmp_path: Path) -> None:
    """The compiler knows the processor that the image names, and finds what it has compiled for it."""
    features = dict(re.findall(r"^ARG (KERNEL_\w+)=(.*)$", DOCKERFILE, re.MULTILINE))
    chosen = {"NUMBA_CPU_NAME": features["KERNEL_CPU"], "NUMBA_CPU_FEATURES": features["KERNEL_FEATURES"]}
    environment = os.environ | chosen | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    counts = [
        subprocess.run(
            [sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert counts == [["0"] * 3 + ["1"] * 3, ["1"] * 3 + ["0"] * 3]


@pytest.mark.spark
@pytest.mark.thorough
def test_nothing_is_compiled_when_a_job_starts(tmp_path: Path) -> None:
    """What the image's build calls is all that a job, an archiver and a check need, of a log that the build has not."""
    features = dict(re.findall(r"^ARG (KERNEL_\w+)=(.*)$", DOCKERFILE, re.MULTILINE))
    cache = tmp_path / "kernels"
    given = {"NUMBA_CPU_NAME": features["KERNEL_CPU"], "NUMBA_CPU_FEATURES": features["KERNEL_FEATURES"]}
    environment = os.environ | given | {"NUMBA_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"}
    module = re.search(r"python -m (tests\.\w+)", DOCKERFILE)
    assert module is not None
    subprocess.run([sys.executable, "-m", module[1]], cwd=REPO, env=environment, check=True)
    built = {path.name for path in cache.rglob("*.nbc")}
    assert len(built) > 200
    job_file = write_job(
        tmp_path, tables='[[tables]]\nmode = ["mirror", "changelog", "scd2"]\ntarget = "{mode}/{table}"\n'
    )
    program = str(Path(sys.executable).with_name("binlog-stream"))
    for command in (
        ["run", job_file, "--once"],
        ["archive", OLTP, "--to", tmp_path / "kept", "--once"],
        ["verify", OLTP],
    ):
        subprocess.run([program, *map(str, command)], env=environment, check=True)
    assert {path.name for path in cache.rglob("*.nbc")} - built == set()


@pytest.mark.spark
@pytest.mark.thorough
def test_entrypoint_starts_a_driver_as_kubernetes_calls_it(tmp_path: Path) -> None:
    """The arguments and variables that Spark gives its pods; the job is the program's own."""
    job_file = write_job(tmp_path)
    settings = tmp_path / "spark.properties"
    settings.write_text("spark.master=local[1]\nspark.driver.host=127.0.0.1\nspark.app.name=shop\n")
    arguments = ["--properties-file", settings, "--class", "org.apache.spark.deploy.PythonRunner"]
    program = f"local://{REPO / 'deploy/spark/job.py'}"
    done = entrypoint("driver", *arguments, program, "run", job_file, "--once", SPARK_DRIVER_BIND_ADDRESS="127.0.0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    for table in TABLES:
        assert mirror(tmp_path / "tables", table) == truth(table)


def test_entrypoint_starts_an_executor_as_kubernetes_calls_it(tmp_path: Path) -> None:
    shown = tmp_path / "java"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    given = {
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_JAVA_OPT_0": "-Done=1 and more",
        "SPARK_JAVA_OPT_10": "-Dlast=x",
        "SPARK_JAVA_OPT_2": "-Dtwo=a=b",
        "SPARK_EXECUTOR_MEMORY": "900m",
        "SPARK_DRIVER_URL": "spark://driver:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "shop-exec-3",
    }
    told = entrypoint("executor", **given).stdout.splitlines()
    assert told[:5] == ["-Done=1 and more", "-Dtwo=a=b", "-Dlast=x", "-Xms900m", "-Xmx900m"]
    assert told[told.index("-cp") + 1] == f"{Path(pyspark.__file__).parent}/jars/*"
    assert told[7] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    options = dict(zip(told[8::2], told[9::2], strict=True))
    assert options == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.3",
        "--resourceProfileId": "0",
        "--podName": "shop-exec-3",
    }


def test_entrypoint_runs_the_program_for_everybody_else() -> None:
    assert entrypoint("--version").stdout.startswith("binlog-stream ")


def entrypoint(*arguments: object, **given: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    command = [str(REPO / "deploy/image/entrypoint.sh"), *map(str, arguments)]
    known = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    return subprocess.run(command, env=known | own | given, capture_output=True, text=True, check=False)
