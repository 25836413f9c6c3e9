"""SparkApplications for both operators: built from one template, in the form that each of them takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.test_image import constraints
from tests.deploy.test_manifests import KUBERNETES_VERSION

REPO = Path(__file__).parents[2]
SPARK = REPO / "deploy/kubernetes/spark"
SCHEMAS = Path(__file__).parent / "schemas"
OPERATORS = {"kubeflow": "sparkoperator.k8s.io-v1beta2", "apache": "spark.apache.org-v1"}


def built(operator: str) -> dict[str, list[dict[str, Any]]]:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    command = [program, "kustomize", str(SPARK / operator)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kinds: dict[str, list[dict[str, Any]]] = {}
    for document in yaml.safe_load_all(text):
        kinds.setdefault(document["kind"], []).append(document)
    return kinds


def application(operator: str) -> dict[str, Any]:
    (found,) = built(operator)["SparkApplication"]
    return found


def pods(operator: str) -> list[dict[str, Any]]:
    spec = application(operator)["spec"]
    if operator == "kubeflow":
        return [spec["driver"]["template"], spec["executor"]["template"]]
    return [spec["driverSpec"]["podTemplateSpec"], spec["executorSpec"]["podTemplateSpec"]]


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_operator_takes_its_application(operator: str) -> None:
    jsonschema.validate(application(operator), yaml.safe_load((SCHEMAS / f"{OPERATORS[operator]}.yaml").read_text()))


@pytest.mark.parametrize("operator", OPERATORS)
def test_kubernetes_takes_everything_else(operator: str) -> None:
    kinds = built(operator)
    del kinds["SparkApplication"]
    assert set(kinds) == {"ConfigMap", "PersistentVolumeClaim", "Role", "RoleBinding", "Service", "ServiceAccount"}
    for document in (one for some in kinds.values() for one in some):
        kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)
    for number, template in enumerate(pods(operator)):
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": f"pod-{number}"}, "template": template}
        kubernetes_validate.validate(pod, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_pods_name_is_there(operator: str) -> None:
    kinds = built(operator)
    names = {kind: {one["metadata"]["name"] for one in some} for kind, some in kinds.items()}
    driver, executor = pods(operator)
    assert [one["spec"]["containers"][0]["name"] for one in (driver, executor)] == [
        "spark-kubernetes-driver",  # the names that Spark looks for
        "spark-kubernetes-executor",
    ]
    volumes = {one["name"]: one for one in driver["spec"]["volumes"]}
    assert {one["name"] for one in driver["spec"]["containers"][0]["volumeMounts"]} == set(volumes)
    assert volumes["job"]["configMap"]["name"] in names["ConfigMap"]
    assert volumes["checkpoint"]["persistentVolumeClaim"]["claimName"] in names["PersistentVolumeClaim"]
    settings = application(operator)["spec"]["sparkConf"]
    assert settings["spark.kubernetes.authenticate.driver.serviceAccountName"] in names["ServiceAccount"]
    assert kinds["RoleBinding"][0]["roleRef"]["name"] in names["Role"]
    assert kinds["RoleBinding"][0]["subjects"][0]["name"] in names["ServiceAccount"]
    assert kinds["Service"][0]["spec"]["selector"].items() <= driver["metadata"]["labels"].items()
    assert not kinds["Service"][0]["spec"]["selector"].items() <= executor["metadata"]["labels"].items()


def test_both_run_the_same() -> None:
    kubeflow, apache = (application(operator)["spec"] for operator in OPERATORS)
    assert pods("kubeflow") == pods("apache")
    image = apache["sparkConf"].pop("spark.kubernetes.container.image")
    assert kubeflow["image"] == image == pods("apache")[0]["spec"]["containers"][0]["image"]
    assert kubeflow["sparkConf"] == apache["sparkConf"]
    assert kubeflow["arguments"] == apache["driverArgs"]
    assert kubeflow["mainApplicationFile"] == apache["pyFiles"]
    assert kubeflow["sparkVersion"] == apache["runtimeVersions"]["sparkVersion"] == str(constraints()["pyspark"])
    copied = re.search(
        r"^COPY .*deploy/spark/job.py (\S+)$", (REPO / "deploy/image/Dockerfile").read_text(), re.MULTILINE
    )
    assert copied is not None
    assert apache["pyFiles"] == f"local://{copied[1]}job.py"
