#!/usr/bin/env python3
"""Stages the files of the image: OUTPUT/debian (libraries, certificates; changes rarely) and OUTPUT/dra (ours).

Both are to be laid over each other at /. Called by build.sh and by the Dockerfile, so that both make the same image.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

import debian_packages
import shared_libraries

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = "usr/local/lib/dra/backends"
NSSWITCH = "hosts: files dns\n"
PASSWD = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"


def put(root, path, source, mode=0o644):
    target = os.path.join(root, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(os.path.realpath(source), target)
    os.chmod(target, mode)
    return target


def write(root, path, text):
    target = os.path.join(root, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(target, 0o644)


def put_ours(root, tree, backends):
    """The daemon and the backends; returns the staged ELF files with the files they were made from."""
    daemon = os.path.join(tree, "bin/dra-driver")
    if not os.path.isfile(daemon):
        raise SystemExit(f"{daemon}: is not there; the tree is what `cmake --install` makes")
    with open(daemon, "rb") as file:
        if ("/" + BACKENDS).encode() not in file.read():
            raise SystemExit(f"{daemon}: looks for its backends elsewhere than in /{BACKENDS}: "
                             "configure the build with CMAKE_INSTALL_PREFIX=/usr/local")
    staged = {put(root, "usr/local/bin/dra-driver", daemon, 0o755): daemon}
    own = sorted(glob.glob(os.path.join(tree, "lib/dra/backends/dra-backend-*.so")))
    for backend in own:
        staged[put(root, f"{BACKENDS}/{os.path.basename(backend)}", backend)] = backend
    # What the build says about itself for a debugger is most of its size. A vendor's file is taken as it is.
    subprocess.run(["strip", "--strip-unneeded", *staged], check=True)
    for backend in backends:
        name = os.path.basename(backend)
        if not os.path.isfile(backend) or not re.fullmatch(r"dra-backend-[a-z0-9-]+\.so", name):
            raise SystemExit(f"--backend {backend}: must be a file dra-backend-<name>.so")
        if os.path.exists(os.path.join(root, BACKENDS, name)):
            raise SystemExit(f"--backend {backend}: there is a backend of this name already")
        staged[put(root, f"{BACKENDS}/{name}", backend)] = backend
    if not os.path.isdir(os.path.join(root, BACKENDS)):
        raise SystemExit(f"{tree}/lib/dra/backends: no backend is there, and none was given")
    return staged


def put_libraries(debian, ours, staged):
    """Copies what the staged files need; returns the Debian packages that it came from."""
    daemon = staged[os.path.join(ours, "usr/local/bin/dra-driver")]
    loader = shared_libraries.interpreter(daemon)
    # /lib and /lib64 are links into /usr; all libraries lie flat, under the names they are asked for, in one of the
    # directories that the loader searches without a cache.
    for name in ("lib", "lib64"):
        os.makedirs(os.path.join(debian, "usr", name), exist_ok=True)
        os.symlink(f"usr/{name}", os.path.join(debian, name))
    put(debian, "usr" + loader, loader, 0o755)
    packages = {debian_packages.owner(loader)}
    libc = shared_libraries.needed(daemon)["libc.so.6"]
    directory = f"usr/lib/{os.path.basename(os.path.dirname(libc))}"  # usr/lib/x86_64-linux-gnu
    for file in staged.values():
        for soname, path in sorted(shared_libraries.needed(file).items()):
            package = debian_packages.owner(path)
            packages.add(package)
            put(debian if package else ours, f"{directory}/{soname}", path)
            if not package:
                print(f"note: {soname} of {os.path.basename(file)} is of no Debian package: {path} is copied",
                      file=sys.stderr)
    return packages - {None}


def built_in(packages):
    """The packages whose code is inside of our program, linked statically or as headers. A -dev package of a library
    that is there as a file, one of `packages`, would be the same thing twice."""
    with open(os.path.join(HERE, "../../sdk/cmake/debian-packages.txt"), encoding="utf-8") as file:
        libraries = re.search(r"^# libraries\n(.*?)^# ", file.read(), re.MULTILINE | re.DOTALL).group(1).split()
    return debian_packages.development_packages(libraries, {debian_packages.source(package) for package in packages})


def put_system(debian):
    """Files that are no libraries; returns their packages."""
    # From the package's own files: what this machine's administrator trusts is nobody else's business.
    bundle = []
    for certificate in sorted(glob.glob("/usr/share/ca-certificates/mozilla/*.crt")):
        with open(certificate, encoding="ascii") as file:
            bundle.append(file.read().strip() + "\n")
    if not bundle:
        raise SystemExit("/usr/share/ca-certificates/mozilla: no certificates; install the package ca-certificates")
    write(debian, "etc/ssl/certs/ca-certificates.crt", "".join(bundle))
    write(debian, "etc/nsswitch.conf", NSSWITCH)  # glibc's own default asks DNS before /etc/hosts
    write(debian, "etc/passwd", PASSWD)
    write(debian, "etc/group", GROUP)
    put(debian, "usr/lib/os-release", "/usr/lib/os-release")  # tells a scanner whose package versions these are
    os.symlink("../usr/lib/os-release", os.path.join(debian, "etc/os-release"))
    os.mkdir(os.path.join(debian, "tmp"))
    os.chmod(os.path.join(debian, "tmp"), 0o1777)
    return {"ca-certificates", "base-files"}


def record(debian, packages):
    staged = {}  # packages of one source say the same, at length
    for package in sorted(packages):
        path = f"usr/share/doc/{package}/copyright"
        with open(debian_packages.copyright_file(package), "rb") as file:
            same = staged.setdefault(file.read(), package)
        if same == package:
            put(debian, path, debian_packages.copyright_file(package))
        else:
            os.makedirs(os.path.join(debian, os.path.dirname(path)))
            os.symlink(f"../{same}/copyright", os.path.join(debian, path))
        write(debian, f"var/lib/dpkg/status.d/{package}", debian_packages.status_paragraph(package))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, help="directory that is made; must not be there")
    parser.add_argument("--install-tree", required=True, help="what `cmake --install` made: bin/, lib/dra/backends/")
    parser.add_argument("--backend", action="append", default=[], help="dra-backend-<name>.so to add; repeatable")
    arguments = parser.parse_args()
    for program in ("dpkg-query", "ldd", "readelf", "strip"):
        if not shutil.which(program):
            raise SystemExit(f"{program} is not there: the image is staged on Debian, from its packages "
                             "(dpkg, libc-bin, binutils)")
    debian, ours = (os.path.join(arguments.output, name) for name in ("debian", "dra"))
    os.makedirs(debian)
    os.makedirs(ours)
    staged = put_ours(ours, arguments.install_tree, arguments.backend)
    packages = put_libraries(debian, ours, staged) | put_system(debian)
    inside = built_in(packages)
    record(debian, packages | inside)
    put(ours, "usr/share/doc/dra-sdk/copyright", os.path.join(HERE, "../../LICENSE"))
    for package in sorted(packages | inside):
        print(package, debian_packages.version(package), "inside dra-driver" if package in inside else "")


if __name__ == "__main__":
    main()
