"""Files of NVIDIA's PyPI packages, for comparison in tests; nothing of them is part of this project."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

# What was compared last; a newer one may add to it, not change it.
PACKAGES = {
    "header-12": "nvidia-nvml-dev-cu12==12.9.79",
    "header-13": "nvidia-nvml-dev==13.5.37",
    "binding": "nvidia-ml-py==13.615.71",
}


def unpack(package, into):
    """Unpacks the package into the folder `into`.

    It is taken from the folder $NVIDIA_WHEELS where that is set, else from the package index. Where the index cannot be
    reached the test is skipped.
    """
    requirement = PACKAGES[package]
    name, version = requirement.split("==")
    wheels = os.environ.get("NVIDIA_WHEELS")
    with tempfile.TemporaryDirectory() as downloads:
        if not wheels:
            wheels = downloads
            download = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                 "--disable-pip-version-check", "--retries=1", "--timeout=20", "--dest", wheels, requirement],
                capture_output=True, text=True, timeout=300, check=False)
            if download.returncode != 0:
                unreachable = any(sign in download.stderr for sign in ("connection broken", "No module named pip"))
                raise (unittest.SkipTest if unreachable else RuntimeError)(
                    f"{requirement} cannot be downloaded; set NVIDIA_WHEELS to a folder with its wheel: "
                    f"{download.stderr.strip()}")
        found = list(pathlib.Path(wheels).glob(f"{name.replace('-', '_')}-{version}-*.whl"))
        if not found:
            raise FileNotFoundError(f"no wheel of {requirement} in {wheels}")
        with zipfile.ZipFile(found[0]) as wheel:
            wheel.extractall(into)
