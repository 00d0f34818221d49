"""What dpkg knows of files on this machine."""

import functools
import os
import re
import subprocess


def _query(*arguments):
    """What dpkg-query prints; "" if it knows nothing of what it is asked about."""
    return subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, check=False).stdout


@functools.lru_cache(maxsize=None)  # several files need the same library, and dpkg reads all its lists for each
def owner(path):
    """The package that the file `path` came with, or None."""
    # dpkg knows a file by the path it was unpacked to: where /usr is merged that is either one.
    real = os.path.realpath(path)
    found = _query("--search", path, real, re.sub(r"^/usr(?=/lib)", "", real))
    return re.split("[:,]", found)[0] or None


def field(package, name):
    return _query("--show", "--showformat=${" + name + "}\n", package).split("\n")[0]


def source(package):
    return field(package, "source:Package")


def version(package):
    return field(package, "Version")


def installed(package):
    return field(package, "db:Status-Status") == "installed"


def status_paragraph(package):
    """The package's paragraph of /var/lib/dpkg/status."""
    return _query("--status", package)


def copyright_file(package):
    return os.path.realpath(f"/usr/share/doc/{package}/copyright")


def development_packages(wanted, known_sources):
    """The -dev packages among `wanted` and all that they depend on, but for those made from one of the sources."""
    found, queue = set(), list(wanted)
    while queue:
        package = queue.pop()
        if package in found or not package.endswith("-dev") or not installed(package) or source(package) in known_sources:
            continue
        found.add(package)
        queue += [re.split(r"[ :(|]", entry.strip())[0] for entry in field(package, "Depends").split(",")]
    return found
