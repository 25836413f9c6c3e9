"""Manifests, units and job files in deploy/: what they name exists, and the programs that read them take them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from binlog_streaming.settings import Job, PublishJob, load_any_job

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes/job").glob("*.yaml"))
JOBS = sorted(DEPLOY.glob("**/*.toml"))
KUBERNETES_VERSION = "1.34"
DROP_IN = "mysql-group.conf"
METRIC = re.compile(r"\bbinlog_stream_[a-z_]+")


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def compose() -> dict[str, Any]:
    (content,) = documents(DEPLOY / "compose/compose.yaml")
    return content


@pytest.mark.parametrize("path", [one for one in MANIFESTS if one.stem != "kustomization"], ids=lambda path: path.stem)
def test_kubernetes_takes_the_manifests(path: Path) -> None:
    for document in documents(path):
        if document["kind"] == "StatefulSet":  # kustomize fills these in
            labels = {"app.kubernetes.io/name": "binlog-stream"}
            document["spec"]["selector"]["matchLabels"] = document["spec"]["template"]["metadata"]["labels"] = labels
        kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


def test_kustomize_builds_the_job() -> None:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    command = [program, "kustomize", str(DEPLOY / "kubernetes/job")]
    built = list(yaml.safe_load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    kinds = {one["kind"]: one for one in built}
    assert set(kinds) == {"ConfigMap", "Service", "StatefulSet"}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["job"]["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"]
    assert kinds["Service"]["spec"]["selector"] == kinds["StatefulSet"]["spec"]["selector"]["matchLabels"]
    claims = {one["metadata"]["name"] for one in kinds["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {one["name"] for one in container["volumeMounts"]} <= set(volumes) | claims
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("path", JOBS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_job_files_are_right(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "/lake")
    monkeypatch.setenv("ARCHIVE", "s3://backup/binlogs")
    job = load_any_job(path)
    assert isinstance(job, Job | PublishJob)
    assert job.metrics.host == "0.0.0.0"


def test_services_name_what_is_there() -> None:
    content = compose()
    for name, service in content["services"].items():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            is_there = (
                (DEPLOY / "compose" / source).exists() if source.startswith(".") else source in content["volumes"]
            )
            assert is_there, f"{name}: {mount}"
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), f"{name}: {port}"
        image = service.get("image", "")
        assert "build" in service or re.search(r":v?\d[\w.]*$", image), f"{name}: {image} has no version"
        assert set(service.get("secrets", ())) <= set(content["secrets"])
    commands = {"run": Job, "publish": PublishJob}
    for name in ("tables", "topics"):
        command, file, *page = content["services"][name]["command"]
        assert page == ["--status", "0.0.0.0:8765", "--status-token-file", "/run/secrets/status_token"]
        assert type(load_any_job(DEPLOY / "compose" / file.removeprefix("/"))) is commands[command]


@pytest.mark.parametrize("name", ["grafana/binlog-stream.json", "compose/alerts.yml"])
def test_dashboard_and_alerts_know_metrics_that_exist(name: str) -> None:
    text = (DEPLOY / name).read_text()
    told = set(re.findall(r"`(binlog_stream)?(_[a-z_]+)`", (DEPLOY.parent / "docs/monitoring.md").read_text()))
    known = {f"binlog_stream{rest}" for _, rest in told}
    assert set(METRIC.findall(text)) <= known
    if name.endswith(".json"):
        panels = json.loads(text)["panels"]
        places = [panel["gridPos"] for panel in panels]
        assert all(one["x"] + one["w"] <= 24 for one in places)
        assert len({panel["id"] for panel in panels}) == len(panels)


def test_alerts_are_those_of_the_docs() -> None:
    docs = (DEPLOY.parent / "docs/monitoring.md").read_text()
    rules = documents(DEPLOY / "compose/alerts.yml")[0]["groups"][0]["rules"]
    documented = {one["alert"]: one["expr"] for one in yaml.safe_load(docs.split("```yaml")[1].split("```")[0])}
    assert documented.items() <= {one["alert"]: one["expr"] for one in rules}.items()


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "systemd/binlog-stream@.service").read_text()
    # The program is not installed where the unit expects it; everything else counts.
    shown = tmp_path / "binlog-stream@shop.service"
    shown.write_text(unit.replace("/opt/binlog-stream/bin/binlog-stream", "/bin/true"))
    (tmp_path / "binlog-stream@.service.d").mkdir()
    shutil.copy(DEPLOY / "systemd" / DROP_IN, tmp_path / "binlog-stream@.service.d")
    command = [program, "verify", "--man=no", str(shown)]
    where = os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=where)
    told = [line for line in done.stderr.splitlines() if "binlog-stream@" in line]
    assert (done.returncode, told) == (0, [])


def test_unit_names_no_group_that_a_machine_may_lack() -> None:
    """With one, systemd does not start it (216/GROUP); a drop-in that pages name has it."""
    unit, drop_in = ((DEPLOY / "systemd" / name).read_text() for name in ("binlog-stream@.service", DROP_IN))
    for setting in ("SupplementaryGroups", "Group", "User"):
        assert re.findall(rf"^{setting}=", unit, re.MULTILINE) == []
    assert "\nSupplementaryGroups=mysql\n" in drop_in
    install = f"install -D -m 644 deploy/systemd/{DROP_IN} -t /etc/systemd/system/binlog-stream@.service.d/"
    for text in (unit, drop_in, (DEPLOY.parent / "docs/deploy.md").read_text()):
        assert install in text


def test_files_of_secrets_are_made_where_the_compose_file_says_how() -> None:
    names = set(compose()["secrets"])
    assert {secret["file"] for secret in compose()["secrets"].values()} == {f"secrets/{name}" for name in names}
    for text in ((DEPLOY / "compose/compose.yaml").read_text(), (DEPLOY.parent / "docs/deploy.md").read_text()):
        made = re.findall(r"^[ #]*(?:for name in|openssl|touch) .*", text, re.MULTILINE)
        assert {name for name in names if any(name in line for line in made)} == names


def test_the_version_of_the_image_is_the_project_s() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    for folder in ("job", "spark/template"):
        (content,) = documents(DEPLOY / "kubernetes" / folder / "kustomization.yaml")
        assert [one["newTag"] for one in content["images"]] == [project["version"]]


def test_server_of_the_compose_file_starts_with_a_log_of_rows() -> None:
    """The InnoDB binlog of MariaDB 12.3 takes no value of log_bin, and its files are only read with rows in them."""
    command = compose()["services"]["mariadb"]["command"]
    assert "--binlog-storage-engine=innodb" in command
    assert "--log-bin" in command
    assert "--binlog-format=ROW" in command


def test_pages_install_from_what_exists() -> None:
    """No index has a package of this name."""
    root = DEPLOY.parent
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *DEPLOY.rglob("*")]
    texts = {page: page.read_text(errors="replace") for page in pages if page.is_file()}
    named = [page for page, text in texts.items() if re.search(r"pip\s+install[^\n`]*\s['\"]?binlog-stream\b", text)]
    assert named == []
