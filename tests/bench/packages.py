# SPDX-License-Identifier: BSD-3-Clause
"""Engines from PyPI that benches compare with, each list of them in an environment of its own in the user's cache folder."""
import hashlib
import os
import pathlib
import subprocess
import sys

# Every package by name and version with what it needs, since pip gets --no-deps: pnnx would bring PyTorch.
VERSIONS = {
    "onnxruntime": "onnxruntime==1.32.0 flatbuffers==25.12.19 numpy==2.5.5 packaging==26.4 protobuf==7.36.2",
    "onnx": "onnx==1.23.2 ml_dtypes==0.6.0 numpy==2.5.5 protobuf==7.36.2 typing_extensions==4.16.0",
    "openvino": "openvino==2026.4.1 openvino-telemetry==2025.2.0 numpy==2.5.5",
    "ncnn": "ncnn==1.0.20261020 pnnx==20261020 numpy==2.5.5",
}


def environment(*names):
    """The folder of an environment with @names of VERSIONS, after installing it if it has to be."""
    packages = sorted({package for name in names for package in VERSIONS[name].split()})
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "inferd"
    key = hashlib.sha256("\n".join([*packages, str(sys.version_info[:2])]).encode()).hexdigest()[:16]
    folder = cache / f"engines-{key}"
    if not (folder / "complete").exists():
        print(f"installing {', '.join(names)} in {folder} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--no-deps", "--only-binary=:all:",
                        *packages], check=True)
        (folder / "complete").touch()
    return folder
