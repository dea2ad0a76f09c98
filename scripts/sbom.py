#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py BUNDLE VERSION: prints the bundle's SBOM as SPDX 2.3 JSON.

The versions of embedded libraries are those of the installed Debian packages. The time is SOURCE_DATE_EPOCH, so equal
bundles have equal output.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

# Embedded libraries: name, licence, Debian packages (one of them is installed), and the file that contains the library.
PARTS = (
    ("jemalloc", "BSD-2-Clause", ("libjemalloc-dev", "libjemalloc2"), "lib/libgpufeed.so"),
    ("hwloc", "BSD-3-Clause", ("libhwloc15", "libhwloc-dev"), "lib/libgfhwloc.so"),
    ("numactl", "LGPL-2.1-only", ("libnuma1", "libnuma-dev"), "lib/libgfnuma.so"),
    ("jansson", "MIT", ("libjansson-dev",), "bin/gpufeed"),
    ("libunwind", "MIT", ("libunwind-dev",), "bin/gpufeed-stacks"),
    ("xz", "LicenseRef-public-domain", ("liblzma-dev",), "bin/gpufeed-stacks"),
)


def installed_version(packages):
    for package in packages:
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout:
            return asked.stdout
    return "NOASSERTION"


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, license_id):
    return {
        "SPDXID": identifier("Package", name), "name": name, "versionInfo": version, "filesAnalyzed": False,
        "downloadLocation": "NOASSERTION", "licenseConcluded": license_id, "licenseDeclared": license_id,
        "copyrightText": "NOASSERTION",
    }


def describe_file(bundle, path):
    content = path.read_bytes()
    name = path.relative_to(bundle).as_posix()
    return {
        "SPDXID": identifier("File", name), "fileName": f"./{name}", "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": algorithm, "checksumValue": hashlib.new(algorithm.lower(), content).hexdigest()}
                      for algorithm in ("SHA1", "SHA256")],
    }


def relate(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def make(bundle, version):
    files = [describe_file(bundle, path) for path in sorted(bundle.rglob("*")) if path.is_file()]
    whole = package("gpufeed", version, "Apache-2.0")
    present = [part for part in PARTS if (bundle / part[3]).is_file()]
    parts = [package(name, installed_version(debian), license_id) for name, license_id, debian, _ in present]
    relations = [relate("SPDXRef-DOCUMENT", "DESCRIBES", whole["SPDXID"])]
    relations += [relate(whole["SPDXID"], "CONTAINS", file["SPDXID"]) for file in files]
    relations += [relate(identifier("File", place), "CONTAINS", part["SPDXID"])
                  for part, (_, _, _, place) in zip(parts, present)]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", 315532800))
    content = hashlib.sha256(json.dumps([whole, parts, files]).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"gpufeed-{version}",
        "documentNamespace": f"urn:gpufeed:{version}:{content}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: scripts/sbom.py"],
        },
        "hasExtractedLicensingInfos": [
            {"licenseId": "LicenseRef-public-domain", "extractedText": "liblzma is in the public domain."}],
        "packages": [whole, *parts], "files": files, "relationships": relations,
    }


def main():
    if len(sys.argv) != 3:
        print("usage: sbom.py BUNDLE VERSION", file=sys.stderr)
        return 2
    print(json.dumps(make(pathlib.Path(sys.argv[1]), sys.argv[2]), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
