"""Which shared libraries an ELF file needs, as this machine's dynamic loader finds them."""

import os
import re
import subprocess


def interpreter(path):
    """The dynamic loader that the ELF program `path` names, as "/lib64/ld-linux-x86-64.so.2"."""
    headers = subprocess.run(["readelf", "--program-headers", "--wide", path], check=True, capture_output=True,
                             text=True).stdout
    found = re.search(r"Requesting program interpreter: (\S+?)\]", headers)
    if not found:
        raise SystemExit(f"{path}: is no dynamically linked program")
    return found.group(1)


def needed(path):
    """{soname: file} of all that the ELF file `path` needs, directly and not; the loader itself is left out."""
    # What this shell happens to have set must not decide what goes into an image.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    run = subprocess.run(["ldd", path], capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        raise SystemExit(f"ldd {path}: {(run.stdout + run.stderr).strip()}")
    missing = re.findall(r"^\s*(\S+) => not found", run.stdout, re.MULTILINE)
    if missing:
        raise SystemExit(f"{path}: needs {', '.join(missing)}, which is not on this machine: install it, or link the "
                         "library with a path to it (RUNPATH)")
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run.stdout, re.MULTILINE))
