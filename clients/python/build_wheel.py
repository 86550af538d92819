# SPDX-License-Identifier: BSD-3-Clause
"""The build backend of the wheel: meson-python, and a tag that says which Pythons the wheel is for.

meson-python writes the version of the Python that builds the wheel into its tag. The extension is compiled for the Limited
API of the oldest Python in pyproject.toml, so the wheel gets the tag of that one.
"""
import pathlib
import subprocess
import sys

from mesonpy import (build_editable, build_sdist, get_requires_for_build_editable,  # noqa: F401
                     get_requires_for_build_sdist, get_requires_for_build_wheel)
import mesonpy

OLDEST = "cp311"


def build_wheel(folder, config_settings=None, metadata_folder=None):
    name = mesonpy.build_wheel(folder, config_settings, metadata_folder)
    done = subprocess.run([sys.executable, "-m", "wheel", "tags", "--python-tag", OLDEST, "--abi-tag", "abi3", "--remove",
                           str(pathlib.Path(folder, name))], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()[-1]
