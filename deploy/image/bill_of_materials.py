"""Writes the bill of materials of an installed binlog-stream to standard output: CycloneDX 1.6, JSON.

    python bill_of_materials.py /opt/binlog-stream > bill-of-materials.cdx.json

It lists what `constraints.txt` names, with the hash of each file that `pip` was given, and the licence that the
installed package states. Needs `cyclonedx-python-lib`, best in an environment of its own.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

CONSTRAINTS = Path(__file__).with_name("constraints.txt")
PROGRAM = "binlog-stream"
_PIN = re.compile(r"(?P<name>\S+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")
_IDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
"""Names that mean one licence of SPDX's list; of others (BSD) it is not known which."""
_LICENCE_MAX = 40
"""Characters of a licence's name; what is longer is its text."""


def bill_of_materials(environment: Path, constraints: Path) -> Bom:
    """List the parts of what is installed in a virtual environment. Raises `SystemExit`: it has other ones."""
    found = {
        re.sub(r"[-_.]+", "-", installed.metadata["Name"]).lower(): installed
        for installed in distributions(path=[str(path) for path in environment.glob("lib/python3.*/site-packages")])
    }
    bom = Bom()
    bom.metadata.component = _component(found, PROGRAM, None, ComponentType.APPLICATION)
    lines = [line for line in constraints.read_text().splitlines() if not line.startswith("#")]
    for pin in map(_PIN.fullmatch, lines):
        if pin is None:
            raise SystemExit(f"{constraints}: a line is not NAME==VERSION --hash=sha256:...")
        part = _component(found, pin["name"], pin["version"], ComponentType.LIBRARY)
        part.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=pin["sha256"]))
        bom.components.add(part)
    bom.register_dependency(bom.metadata.component, bom.components)
    return bom


def _component(found: dict[str, Distribution], name: str, version: str | None, kind: ComponentType) -> Component:
    installed = found.get(name)
    if installed is None or version not in (None, installed.version):
        has = "is not installed" if installed is None else f"is installed as {installed.version}"
        raise SystemExit(f"{name} {version or ''} {has}: install what constraints.txt names, with --no-deps")
    purl = PackageURL("pypi", name=name, version=installed.version)
    licences = [LicenseFactory().make_from_string(_IDS.get(text, text)) for text in _licences(installed)]
    return Component(
        name=name, version=installed.version, type=kind, purl=purl, bom_ref=purl.to_string(), licenses=licences
    )


def _licences(installed: Distribution) -> list[str]:
    """What a package states: an expression, a short name, or classifiers."""
    expression, name = installed.metadata["License-Expression"], installed.metadata["License"]
    if expression:
        return [expression]
    if name and len(name) <= _LICENCE_MAX and "\n" not in name:
        return [name]
    classifiers = [text.split(" :: ") for text in installed.metadata.get_all("Classifier") or ()]
    stated = [words[-1] for words in classifiers if words[0] == "License" and len(words) > 1]
    if not stated:
        raise SystemExit(f"{installed.metadata['Name']} {installed.version} states no licence")
    return stated


if __name__ == "__main__":
    _, environment, *more = sys.argv
    bom = bill_of_materials(Path(environment), Path(more[0]) if more else CONSTRAINTS)
    sys.stdout.write(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n")
