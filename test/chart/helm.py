"""Runs helm on the chart and gives the objects that it renders."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "templates" / "chart"
RELEASE = "rel"
NAMESPACE = "dra"
KUBERNETES = ["1.34.0", "1.35.0", "1.36.0", "1.37.0"]
NEWEST = KUBERNETES[-1]


@functools.cache
def program():
    """helm, of $HELM or built by test/cluster/lib/helm.sh."""
    given = os.environ.get("HELM")
    if given:
        return given
    built = subprocess.run([REPOSITORY / "test/cluster/lib/helm.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return built.stdout.strip()


def run(*arguments):
    """helm's exit status, what it printed and its errors."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def merge(low, high):
    """The values `low` with `high` laid over them, as helm does with --values files."""
    merged = dict(low)
    for key, value in high.items():
        both = isinstance(value, dict) and isinstance(low.get(key), dict)
        merged[key] = merge(low[key], value) if both else value
    return merged


@functools.cache
def _template(values_json, kubernetes, namespace, chart):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as values:
        values.write(values_json)
        values.flush()
        return run("template", RELEASE, chart, "--namespace", namespace, "--kube-version", kubernetes,
                   "--values", values.name)


def template(values=None, kubernetes=NEWEST, namespace=NAMESPACE, chart=CHART):
    return _template(json.dumps(values or {}), kubernetes, namespace, str(chart))


def commands(notes):
    """The commands that the notes show: the paragraphs after a line that ends in a colon, a command a line; the lines of a
    here-document belong to its command."""
    found, paragraphs = [], notes.strip().split("\n\n")
    for before, paragraph in zip(paragraphs, paragraphs[1:]):
        if not before.endswith(":"):
            continue
        end = ""
        for line in paragraph.split("\n"):
            if end:
                found[-1] += "\n" + line
                end = "" if line == end else end
            else:
                found.append(line)
                end = line.partition("<<'")[2].rstrip("'")
    return found


class Objects:
    """What one `helm template` rendered."""

    def __init__(self, text):
        self.all = [document for document in yaml.safe_load_all(text) if document]

    def of(self, kind):
        return [document for document in self.all if document["kind"] == kind]

    def one(self, kind):
        found = self.of(kind)
        if len(found) != 1:
            raise AssertionError(f"{len(found)} objects of kind {kind}, wanted 1")
        return found[0]

    @property
    def kinds(self):
        return sorted({document["kind"] for document in self.all})

    @property
    def pod(self):
        return self.one("DaemonSet")["spec"]["template"]["spec"]

    @property
    def container(self):
        (container,) = self.pod["containers"]
        return container

    @property
    def config(self):
        """config.yaml of dra-driver."""
        return yaml.safe_load(self.one("ConfigMap")["data"]["config.yaml"])

    def rule(self, resource):
        """Of the ClusterRole: the rule for a resource, None if there is none."""
        found = [rule for rule in self.one("ClusterRole")["rules"] if rule["resources"] == [resource]]
        if len(found) > 1:
            raise AssertionError(f"{len(found)} rules for {resource}")
        return found[0] if found else None

    def mounts(self):
        """Container path -> (host path, mount, volume) of the host's paths."""
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        result = {}
        for mount in self.container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "hostPath" in volume:
                result[mount["mountPath"]] = (volume["hostPath"]["path"], mount, volume)
        return result


class ChartTest(unittest.TestCase):
    maxDiff = None

    def render(self, values=None, **options):
        status, text, error = template(values, **options)
        self.assertEqual(status, 0, error)
        return Objects(text)

    def refused(self, values, *texts, **options):
        """helm refuses the values, and says each of the texts."""
        status, _, error = template(values, **options)
        self.assertNotEqual(status, 0, "helm took the values")
        for text in texts:
            self.assertIn(text, error)

    def notes(self, values=None, kubernetes=NEWEST):
        """NOTES.txt as an install would print it, without a cluster: rendered through an object of a copy of the chart."""
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(folder) / "chart"
            shutil.copytree(CHART, chart)
            notes = chart / "templates" / "NOTES.txt"
            shutil.move(notes, chart / "NOTES.txt")
            (chart / "templates" / "notes.yaml").write_text(
                "apiVersion: v1\nkind: Notes\nnotes: {{ tpl (.Files.Get \"NOTES.txt\") . | toJson }}\n")
            return self.render(values, kubernetes=kubernetes, chart=chart).one("Notes")["notes"]
