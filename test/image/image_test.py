"""The image of templates/image, made from the build in $DRA_BUILD_DIR (test/image/run.sh) and looked into."""

import glob
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from archive import Archive

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD_SH = os.path.join(HERE, "../../templates/image/build.sh")
BUILD = os.environ["DRA_BUILD_DIR"]
NAME = "registry.example.com/acme/dra-driver:v1"
OTHER_NAME = "localhost/acme/driver:dev"
MAX_BYTES = 40_000_000


def build(output, *arguments, epoch="1700000000"):
    return subprocess.run([BUILD_SH, "--output", output, *arguments], capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": epoch, "LC_ALL": "C.UTF-8"}, check=False)


def build_type():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", file.read(), re.MULTILINE).group(1)


def run_in(root, *command):
    """Runs a program of the image with the image as its root."""
    # A user namespace lets one who is not root do it too.
    prefix = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    return subprocess.run([*prefix, "chroot", root, *command], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/sbin:/usr/bin:/bin"})


class ImageTest(unittest.TestCase):
    """One image, made once, for all that only look at it."""

    made = False

    @classmethod
    def setUpClass(cls):
        if ImageTest.made:
            return
        ImageTest.made = True
        ImageTest.work = tempfile.mkdtemp(prefix="dra-image-")
        unittest.addModuleCleanup(shutil.rmtree, ImageTest.work)
        ImageTest.tree = os.path.join(cls.work, "tree")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.tree, "--component", "Runtime"], check=True,
                       capture_output=True)
        ImageTest.path = os.path.join(cls.work, "image.tar")
        made = build(cls.path, "--build-dir", BUILD, "--name", NAME, "--name", OTHER_NAME, "--source", "https://a.b/c")
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        ImageTest.output = made.stdout
        ImageTest.archive = Archive(cls.path)
        ImageTest.root = os.path.join(cls.work, "root")
        cls.archive.unpack(cls.root)


class Layout(ImageTest):
    def test_is_an_oci_layout_whose_digests_and_sizes_are_right(self):
        self.assertIn(b'"imageLayoutVersion": "1.0.0"', self.archive.files["oci-layout"])
        used = [self.archive.index["manifests"][0], self.archive.manifest["config"], *self.archive.manifest["layers"]]
        for descriptor in used:
            self.archive.blob(descriptor)
        blobs = {name for name in self.archive.files if name.startswith("blobs/")}
        self.assertEqual(blobs, {"blobs/" + descriptor["digest"].replace(":", "/") for descriptor in used})

    def test_the_config_names_the_uncompressed_layers(self):
        self.assertEqual(self.archive.config["rootfs"]["diff_ids"],
                         ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in self.archive.layers])
        self.assertEqual(len(self.archive.config["history"]), len(self.archive.layers))

    def test_every_name_is_there_as_containerd_reads_it(self):
        names = {(entry["annotations"]["io.containerd.image.name"],
                  entry["annotations"]["org.opencontainers.image.ref.name"]) for entry in self.archive.index["manifests"]}
        self.assertEqual(names, {(NAME, "v1"), (OTHER_NAME, "dev")})
        self.assertEqual(len({entry["digest"] for entry in self.archive.index["manifests"]}), 1)

    def test_labels_say_title_version_source_and_licence(self):
        labels = self.archive.config["config"]["Labels"]
        version = run_in(self.root, "/usr/local/bin/dra-driver", "--version").stdout.split()[-1]
        self.assertEqual(labels, {
            "org.opencontainers.image.title": "dra-driver", "org.opencontainers.image.version": version,
            "org.opencontainers.image.source": "https://a.b/c", "org.opencontainers.image.licenses": "Apache-2.0"})

    def test_the_digest_and_the_size_are_printed(self):
        self.assertIn("digest " + self.archive.index["manifests"][0]["digest"], self.output)
        self.assertRegex(self.output, r"[0-9.]+ MB compressed")

    def test_the_same_input_gives_the_same_bytes(self):
        again = os.path.join(self.work, "again.tar")
        made = build(again, "--install-tree", self.tree, "--name", NAME, "--name", OTHER_NAME,
                     "--source", "https://a.b/c")
        self.assertEqual(made.returncode, 0, made.stderr)
        with open(again, "rb") as one, open(self.path, "rb") as other:
            self.assertTrue(one.read() == other.read())

    def test_no_file_says_who_made_it_when(self):
        for member in self.archive.members():
            self.assertEqual((member.uid, member.gid, member.uname, member.gname, member.mtime),
                             (0, 0, "", "", 1700000000), member.name)

    def test_a_release_is_under_the_size_limit(self):
        if build_type() != "Release":
            self.skipTest(f"the build is {build_type()}, not Release")
        self.assertLess(os.path.getsize(self.path), MAX_BYTES)


class Content(ImageTest):
    def test_runs_and_loads_every_backend_with_nothing_but_the_image(self):
        listed = run_in(self.root, "/usr/local/bin/dra-driver", "--list-backends")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        lines = [line.split("\t")[:2] for line in listed.stdout.splitlines()]
        built = [os.path.basename(path) for path in glob.glob(os.path.join(self.tree, "lib/dra/backends/*.so"))]
        self.assertIn("dra-backend-fake.so", built)
        self.assertEqual(sorted(lines), sorted([f"/usr/local/lib/dra/backends/{name}", "usable"] for name in built))

    def test_every_shared_library_is_found_inside(self):
        (loader,) = glob.glob(os.path.join(self.root, "usr/lib*/ld-linux*.so.*"))
        files = glob.glob(os.path.join(self.root, "usr/local/lib/dra/backends/*.so"))
        for path in [os.path.join(self.root, "usr/local/bin/dra-driver"), *files]:
            found = run_in(self.root, loader.removeprefix(self.root), "--list", path.removeprefix(self.root))
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertNotIn("not found", found.stdout)
            self.assertIn("libc.so.6 => /", found.stdout)

    def test_the_entrypoint_is_the_only_program(self):
        (entrypoint,) = self.archive.config["config"]["Entrypoint"]
        programs = [member.name for member in self.archive.members() if member.isfile() and member.mode & 0o111]
        self.assertEqual([name for name in programs if not re.search(r"/ld-linux[^/]*$", name)],
                         [entrypoint.lstrip("/")])

    def test_there_is_no_shell(self):
        names = {os.path.basename(member.name) for member in self.archive.members()}
        self.assertFalse(names & {"sh", "bash", "dash", "busybox", "ash", "perl", "python3"})

    def test_nothing_is_setuid_setgid_or_writable_by_all_but_tmp(self):
        for member in self.archive.members():
            if member.name == "tmp" or member.issym():
                continue
            self.assertEqual(member.mode & 0o6022, 0, member.name)

    def test_a_scanner_finds_the_packages_with_their_versions_and_licences(self):
        folder = os.path.join(self.root, "var/lib/dpkg/status.d")
        packages = os.listdir(folder)
        for package in ("libc6", "libstdc++6", "libcurl4", "libgrpc++-dev", "ca-certificates"):
            self.assertIn(package, packages)
        for package in packages:
            with open(os.path.join(folder, package), encoding="utf-8") as file:
                paragraph = file.read()
            installed = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True,
                                       check=True).stdout
            self.assertIn(f"\nVersion: {installed}\n", paragraph)
            self.assertTrue(os.path.getsize(os.path.join(self.root, f"usr/share/doc/{package}/copyright")) > 0)
        with open(os.path.join(self.root, "etc/os-release"), encoding="utf-8") as file:
            self.assertIn("ID=debian", file.read())

    def test_every_library_of_debian_has_its_package_recorded(self):
        recorded = set(os.listdir(os.path.join(self.root, "var/lib/dpkg/status.d")))
        libraries = glob.glob(os.path.join(self.root, "usr/lib/*/*.so*"))
        self.assertGreater(len(libraries), 5)
        for library in libraries:
            owners = subprocess.run(["dpkg-query", "--search", f"*/{os.path.basename(library)}"], capture_output=True,
                                    text=True, check=True).stdout
            self.assertTrue(recorded & set(re.findall(r"^([^:, ]+)", owners, re.MULTILINE)), library)

    def test_certificates_and_name_lookup_are_there(self):
        with open(os.path.join(self.root, "etc/ssl/certs/ca-certificates.crt"), encoding="ascii") as file:
            self.assertGreater(file.read().count("BEGIN CERTIFICATE"), 50)
        with open(os.path.join(self.root, "etc/nsswitch.conf"), encoding="ascii") as file:
            self.assertIn("hosts: files dns", file.read())


class VendorBackend(ImageTest):
    def vendor_library(self, name, needs_own):
        """A copy of the fake backend that also needs a library which no package has, or one that is gone."""
        folder = tempfile.mkdtemp(dir=self.work)
        source = os.path.join(folder, "own.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("int acme_answer(void) { return 42; }\n")
        own = os.path.join(folder, "libacme-own.so.1")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libacme-own.so.1", "-o", own, source], check=True)
        library = os.path.join(folder, name)
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", f"-Wl,-rpath,{folder}", "-o", library,
                        os.path.join(HERE, "../abi/v1_0/backend.c"), f"-I{HERE}/../abi/v1_0", own], check=True)
        if not needs_own:
            os.unlink(own)
        return library

    def test_is_added_with_the_libraries_it_needs(self):
        library = self.vendor_library("dra-backend-acme.so", True)
        path = os.path.join(self.work, "vendor.tar")
        made = build(path, "--install-tree", self.tree, "--backend", library)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("libacme-own.so.1", made.stderr)
        root = os.path.join(self.work, "vendor-root")
        Archive(path).unpack(root)
        listed = run_in(root, "/usr/local/bin/dra-driver", "--list-backends").stdout
        self.assertIn("/usr/local/lib/dra/backends/dra-backend-acme.so\tusable", listed)
        self.assertIn("/usr/local/lib/dra/backends/dra-backend-fake.so\tusable", listed)

    def test_one_whose_library_is_missing_is_refused_by_name(self):
        library = self.vendor_library("dra-backend-acme.so", False)
        made = build(os.path.join(self.work, "missing.tar"), "--install-tree", self.tree, "--backend", library)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("libacme-own.so.1", made.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.work, "missing.tar")))

    def test_a_file_that_the_daemon_would_not_find_is_refused(self):
        library = self.vendor_library("acme.so", True)
        made = build(os.path.join(self.work, "name.tar"), "--install-tree", self.tree, "--backend", library)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("dra-backend-<name>.so", made.stderr)

    def test_one_of_the_name_of_ours_is_refused(self):
        library = self.vendor_library("dra-backend-fake.so", True)
        made = build(os.path.join(self.work, "twice.tar"), "--install-tree", self.tree, "--backend", library)
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("a backend of this name already", made.stderr)


class Refusals(unittest.TestCase):
    def test_a_tree_without_the_daemon_is_named(self):
        with tempfile.TemporaryDirectory() as empty:
            made = build(os.path.join(empty, "image.tar"), "--install-tree", empty)
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(f"{empty}/bin/dra-driver", made.stderr)

    def test_a_name_without_tag_is_refused(self):
        with tempfile.TemporaryDirectory() as work:
            made = build(os.path.join(work, "image.tar"), "--build-dir", BUILD, "--name", "localhost/acme/driver")
            self.assertNotEqual(made.returncode, 0)
            self.assertIn("REGISTRY/REPOSITORY:TAG", made.stderr)
            self.assertEqual(os.listdir(work), [])

    def test_neither_or_both_of_build_and_tree_are_refused(self):
        for arguments in ((), ("--build-dir", BUILD, "--install-tree", BUILD)):
            self.assertEqual(build("x.tar", *arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
