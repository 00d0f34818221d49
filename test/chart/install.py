"""The chart on a real cluster: install, claims, permissions, update without a gap, host network, uninstall.

  HELM=... KUBECONFIG=... python3 test/chart/install.py

Wants the chart's image and a workload image ($WORKLOAD_IMAGE, with `env` and `sleep`) on the one node of the cluster, and to run
in that node's network namespace, as root.
Waits are bounded; each test has a release of its own and leaves nothing.
"""

import itertools
import json
import os
import re
import subprocess
import threading
import time
import unittest

import helm

WORKLOAD_IMAGE = os.environ.get("WORKLOAD_IMAGE", "docker.io/local/workload:1")
WAIT = 90
NUMBERS = itertools.count(1)


def command(*arguments, text=None, check=True):
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=180)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {done.stderr or done.stdout}")
    return done


def kubectl(*arguments, **options):
    return command("kubectl", *arguments, **options).stdout


def get(*arguments):
    return json.loads(kubectl("get", "-o", "json", *arguments))


def until(what, condition, seconds=WAIT):
    """Asks until the condition holds, and gives its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)


def ready(pod):
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


class Release:
    """One release of the chart in a namespace of its own, with the driver name `<release>.example.com`."""

    def __init__(self, name):
        self.name = self.namespace = name
        self.driver = f"{name}.example.com"

    def helm(self, *arguments):
        return command(helm.program(), "--namespace", self.namespace, *arguments)

    def install(self, *settings):
        """Installs or upgrades to exactly these settings, and waits until the pods are ready."""
        self.helm("upgrade", "--install", self.name, str(helm.CHART), "--create-namespace", "--wait", f"--timeout={WAIT}s",
                  "--reset-values", "--set", f"driverName={self.driver}", *[x for s in settings for x in ("--set", s)])

    def remove(self):
        self.helm("uninstall", self.name, "--wait", "--ignore-not-found")
        kubectl("delete", "namespace", self.namespace, "--ignore-not-found", f"--timeout={WAIT}s")

    def pods(self):
        return get("pods", "-n", self.namespace, "-l", "app.kubernetes.io/component=kubeletplugin")["items"]

    def pod(self):
        (pod,) = [p for p in self.pods() if ready(p)]
        return pod

    def slices(self):
        return get("resourceslices", "--field-selector", f"spec.driver={self.driver}")["items"]

    def devices(self):
        return sum(len(s["spec"].get("devices", [])) for s in self.slices())

    def log(self):
        return kubectl("logs", "-n", self.namespace, self.pod()["metadata"]["name"])

    def run(self, *arguments, check=True):
        """dra-driver in the pod."""
        return command("kubectl", "exec", "-n", self.namespace, self.pod()["metadata"]["name"], "--", "/usr/local/bin/dra-driver",
                       "--config", "/etc/dra/config.yaml", *arguments, check=check)

    def start_workload(self, name, script="env; sleep 1000000"):
        objects = [
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": self.namespace},
             "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": self.driver}}]}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.namespace},
             "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                      "containers": [{"name": "c", "image": WORKLOAD_IMAGE, "imagePullPolicy": "IfNotPresent",
                                      "command": ["sh", "-c", script], "resources": {"claims": [{"name": "r"}]}}],
                      "resourceClaims": [{"name": "r", "resourceClaimName": name}]}}]
        kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def held(self):
        """What uninstall-check says of the driver: True if a claim is recorded on the node, False if none is."""
        done = self.run("uninstall-check", "--driver", self.driver, check=False)
        if done.returncode not in (0, 1):
            raise AssertionError(done.stderr or done.stdout)
        return done.returncode == 1

    def workload_phase(self, name):
        return get("pod", "-n", self.namespace, name)["status"]["phase"]

    def end_workload(self, name):
        kubectl("delete", "-n", self.namespace, f"pod/{name}", f"resourceclaim/{name}", f"--timeout={WAIT}s")


class Watcher:
    """Looks again and again, in a thread, that a release has a ready pod and all of its devices."""

    def __init__(self, release, devices):
        self.release, self.devices = release, devices
        self.looks, self.gaps, self.most = 0, [], 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.stop.wait(0.1):
            pods = sum(ready(pod) for pod in self.release.pods())
            devices = self.release.devices()
            self.looks += 1
            self.most = max(self.most, pods)
            if pods == 0 or devices < self.devices:
                self.gaps.append((pods, devices))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class ClusterTest(unittest.TestCase):
    def release(self, *settings):
        release = Release(f"chart-{next(NUMBERS)}")
        self.addCleanup(release.remove)
        release.install(*settings)
        return release


class Install(ClusterTest):
    def test_publishes_and_serves_a_claim(self):
        release = self.release("gpuDeviceStatus=true", "kubeletPlugin.numDevices=3")
        self.assertEqual(release.devices(), 3)
        release.start_workload("w")
        until("the pod runs", lambda: release.workload_phase("w") == "Running")
        self.assertRegex(kubectl("logs", "-n", release.namespace, "w"), r"(?m)^GPU_DEVICE_\d=gpu-\d$")
        status = until("the claim has the device's status", lambda: get("resourceclaim", "-n", release.namespace, "w")["status"].get("devices"))
        self.assertEqual(status[0]["driver"], release.driver)
        self.assertTrue(release.held())
        release.end_workload("w")
        until("nothing is held", lambda: not release.held())
        self.assertNoDenials(release)

    def assertNoDenials(self, release):
        """The permissions suffice: no request was refused, and nothing is logged as a fault. (The dry run that asks which
        fields the server keeps may be answered 422; a claim's status may not: so 1.36 and newer refuse it.)"""
        pod = release.pod()["metadata"]["name"]
        metrics = kubectl("get", "--raw", f"/api/v1/namespaces/{release.namespace}/pods/{pod}:8080/proxy/metrics")
        requests = re.findall(r"^dra_api_requests_total\{(.*)\}", metrics, re.MULTILINE)
        self.assertTrue(requests)
        refused = r'code="(401|403)"|code="422",resource="resourceclaims"'
        self.assertEqual([r for r in requests if re.search(refused, r)], [])
        # An older server warns of the fields of that dry run that it does not know.
        faults = [line for line in release.log().splitlines()
                  if re.search(r" (warn|error) ", line) and "the API server warns" not in line]
        self.assertEqual(faults, [])

    def test_works_without_a_metrics_port(self):
        release = self.release("kubeletPlugin.containers.plugin.metricsPort=-1")
        self.assertEqual(release.devices(), 8)
        self.assertEqual(release.run("--probe", "ready").returncode, 0)

    def test_several_drivers_in_one_pod(self):
        release = Release(f"chart-{next(NUMBERS)}")
        self.addCleanup(release.remove)
        other = f"other.{release.driver}"
        drivers = [{"name": release.driver, "backend": "fake"}, {"name": other, "backend": "fake", "config": {"numDevices": 2}}]
        release.helm("install", release.name, str(helm.CHART), "--create-namespace", "--wait", f"--timeout={WAIT}s",
                     f"--set-json=drivers={json.dumps(drivers)}")
        self.assertEqual(release.devices(), 8)
        (published,) = get("resourceslices", "--field-selector", f"spec.driver={other}")["items"]
        self.assertEqual(len(published["spec"]["devices"]), 2)
        self.assertEqual(len(release.pods()), 1)


class Notes(ClusterTest):
    def test_every_command_runs_and_prints_what_the_notes_say(self):
        release = self.release()
        pod = release.pod()["metadata"]["name"]
        wanted = [
            ("get pods .* -o wide", rf"{pod} +1/1 +Running"),
            ("get resourceslices", rf"{release.pod()['spec']['nodeName']}.* {release.driver} "),
            ("get deviceclasses", rf"(?m)^{release.driver} "),
            ("kubectl apply", "resourceclaimtemplate.*/one-device created\npod/one-device created"),
            ("kubectl wait", "pod/one-device condition met"),
            ("kubectl logs", r"(?m)^GPU_DEVICE_\d=gpu-\d$"),
            ("kubectl delete", 'pod "one-device".* deleted'),
            ("--probe ready", "^ready$"),
            ("curl", r'"ready": ?true'),
            (" drain ", f"{release.driver}: drain requested"),
            (" uninstall-check ", f"{release.driver}: no claim holds a device"),
            ("helm .* uninstall", f'release "{release.name}" uninstalled')]
        commands = helm.commands(release.helm("get", "notes", release.name).stdout)
        self.assertEqual(len(commands), len(wanted), commands)
        path = f"{os.path.dirname(helm.program())}:{os.environ['PATH']}"
        for text, (part, output) in zip(commands, wanted):
            self.assertRegex(text, part)
            self.assertRegex(command("env", f"PATH={path}", "bash", "-c", text).stdout, output, text)
        until("the kubelet deletes the slices", lambda: not release.slices())


class Objects(ClusterTest):
    def test_the_server_takes_what_is_rendered_for_every_backend(self):
        version = json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
        for backend in ("fake", "nvidia", "rdma", "fpga"):
            values = {"drivers": [{"name": "d.example.com", "backend": backend}], "allowDefaultNamespace": True,
                      "resourceQuota": {"enabled": True}, "openshift": {"enabled": True}}
            status, text, error = helm.template(values, kubernetes=version, namespace="default")
            self.assertEqual(status, 0, error)
            kubectl("create", "--dry-run=server", "-f", "-", text=text)


class Admission(ClusterTest):
    def slice(self, release, node, version="v1"):
        device = {"name": "d"} if version == "v1" else {"name": "d", "basic": {}}
        return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "metadata": {"name": "chart-foreign"},
                "spec": {"driver": release.driver, "nodeName": node, "devices": [device],
                         "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}}

    def as_driver(self, release, *arguments, bound=True, text=None):
        account = release.pod()["spec"]["serviceAccountName"]
        binding = ["--bound-object-kind=Pod", f"--bound-object-name={release.pod()['metadata']['name']}"] if bound else []
        token = kubectl("create", "token", "-n", release.namespace, account, *binding).strip()
        return command("kubectl", "--token", token, *arguments, text=text, check=False)

    def create(self, release, node, version="v1", **options):
        return self.as_driver(release, "create", "--dry-run=server", "--validate=false", "-f", "-",
                              text=json.dumps(self.slice(release, node, version)), **options)

    def test_a_driver_writes_slices_of_its_own_node_alone(self):
        release = self.release()
        node = release.pod()["spec"]["nodeName"]
        # A policy takes a moment to be in force.
        until("the policy refuses", lambda: self.create(release, "elsewhere").returncode != 0, 30)

        own = self.create(release, node)
        self.assertEqual(own.returncode, 0, own.stderr)
        foreign = self.create(release, "elsewhere")
        self.assertIn(f"the driver on node {node} may not create a ResourceSlice of node elsewhere", foreign.stderr)
        unbound = self.create(release, node, bound=False)
        self.assertIn("the token names no node", unbound.stderr)
        if "resource.k8s.io/v1beta1" in kubectl("api-versions").split():
            older = self.create(release, "elsewhere", "v1beta1")
            self.assertIn("may not create a ResourceSlice of node elsewhere", older.stderr)

        kubectl("create", "-f", "-", text=json.dumps(self.slice(release, "elsewhere")))
        self.addCleanup(kubectl, "delete", "resourceslice", "chart-foreign")
        deleted = self.as_driver(release, "delete", "resourceslice", "chart-foreign")
        self.assertIn("may not delete a ResourceSlice of node elsewhere", deleted.stderr)
        changed = dict(self.slice(release, "elsewhere"))
        changed["metadata"] = {"name": "chart-foreign", "resourceVersion": get("resourceslice", "chart-foreign")["metadata"]["resourceVersion"]}
        replaced = self.as_driver(release, "replace", "-f", "-", text=json.dumps(changed))
        self.assertIn("may not update a ResourceSlice of node elsewhere", replaced.stderr)


class Update(ClusterTest):
    def update_under_watch(self, before, after):
        release = self.release(*before)
        old = release.pod()["metadata"]["uid"]
        release.start_workload("held")
        until("the pod runs", lambda: release.workload_phase("held") == "Running")
        with Watcher(release, devices=4) as watcher:
            release.install(*after)
            until("the old pod is gone", lambda: old not in [p["metadata"]["uid"] for p in release.pods()])
            release.start_workload("new")
            until("a new pod runs", lambda: release.workload_phase("new") == "Running")
        self.assertGreater(watcher.looks, 5)
        self.assertEqual(watcher.gaps, [])
        self.assertNotEqual(release.pod()["metadata"]["uid"], old)
        self.assertEqual(release.workload_phase("held"), "Running")
        release.end_workload("held")
        release.end_workload("new")
        until("nothing is held", lambda: not release.held())
        return release

    def test_another_configuration_rolls_without_a_gap(self):
        release = self.update_under_watch(["kubeletPlugin.numDevices=4"], ["kubeletPlugin.numDevices=6"])
        until("the new devices are published", lambda: release.devices() == 6)

    def test_on_the_hosts_network_two_instances_run_side_by_side(self):
        host = ["kubeletPlugin.hostNetwork=true", "kubeletPlugin.numDevices=4"]
        release = self.update_under_watch(host, [*host, "log.level=debug"])
        self.assertEqual(release.run("--probe", "ready").returncode, 0)
        self.assertNotIn("ports", release.pod()["spec"]["containers"][0])

    def test_devices_stay_the_same_over_an_update(self):
        def uuids():
            return sorted(d["attributes"]["uuid"]["string"] for s in release.slices() for d in s["spec"]["devices"])

        release = self.release("kubeletPlugin.numDevices=2")
        before, old = uuids(), release.pod()["metadata"]["uid"]
        release.install("kubeletPlugin.numDevices=2", "log.level=debug")
        until("the old pod is gone", lambda: old not in [p["metadata"]["uid"] for p in release.pods()])
        self.assertEqual(uuids(), before)

    def test_nothing_rolls_without_a_change(self):
        release = self.release()
        before = release.pod()["metadata"]["uid"]
        release.install()
        self.assertEqual(release.pod()["metadata"]["uid"], before)


class Interfaces(ClusterTest):
    """An interface in the place of a NIC: the pod of the driver has no privilege but what `hardware.rdma` gives it."""
    NIC = "chartnic0"

    def link(self):
        found = [link for link in json.loads(command("ip", "-json", "link").stdout) if link["ifname"] == self.NIC]
        return found and {"mtu": found[0]["mtu"], "address": found[0]["address"], "up": "UP" in found[0]["flags"],
                          "arp_ignore": command("sysctl", "-n", f"net.ipv4.conf.{self.NIC}.arp_ignore").stdout.strip()}

    def setUp(self):
        command("ip", "link", "add", self.NIC, "mtu", "1400", "type", "veth", "peer", "name", "chartwire0")
        self.addCleanup(command, "ip", "link", "delete", "chartwire0")
        command("ip", "link", "set", self.NIC, "up")
        command("sysctl", "-w", f"net.ipv4.conf.{self.NIC}.arp_ignore=1")
        self.before = self.link()
        self.installed = Release(f"chart-{next(NUMBERS)}")
        self.addCleanup(self.installed.remove)
        self.install()
        self.assertEqual(self.installed.devices(), 1)

    def install(self, *settings):
        drivers = [{"name": self.installed.driver, "backend": "rdma", "deviceStatus": True, "config": {"include": [{"names": [self.NIC]}]}}]
        self.installed.helm("upgrade", "--install", self.installed.name, str(helm.CHART), "--create-namespace", "--wait",
                            f"--timeout={WAIT}s", f"--set-json=drivers={json.dumps(drivers)}", *settings)

    def start(self):
        self.installed.start_workload("w", "ls /sys/class/net; sleep 1000000")
        # While there is a driver that can unprepare it.
        self.addCleanup(kubectl, "delete", "-n", self.installed.namespace, "pod/w", "--ignore-not-found", f"--timeout={WAIT}s")
        until("the pod runs", lambda: self.installed.workload_phase("w") == "Running")
        self.assertEqual(kubectl("logs", "-n", self.installed.namespace, "w").split(), [self.NIC, "eth0", "lo"])
        self.assertFalse(self.link())

    def interface(self):
        (device,) = get("resourceclaim", "-n", self.installed.namespace, "w")["status"].get("devices") or [{}]
        return device.get("networkData", {}).get("interfaceName")

    def end(self):
        self.installed.end_workload("w")
        until("nothing is held", lambda: not self.installed.held())
        self.assertEqual(self.link(), self.before)
        self.assertEqual([line for line in self.installed.log().splitlines() if re.search(r" (warn|error) ", line)], [])

    def test_one_goes_to_a_pod_and_comes_back(self):
        self.start()
        until("the claim's status tells the interface", lambda: self.interface() == self.NIC)
        self.end()

    def test_one_comes_back_to_the_next_instance(self):
        self.start()
        old = self.installed.pod()["metadata"]["uid"]
        self.install("--set=log.level=debug")
        until("the old pod is gone", lambda: old not in [p["metadata"]["uid"] for p in self.installed.pods()])
        self.assertEqual(self.installed.devices(), 1)
        self.end()


class Uninstall(ClusterTest):
    def test_leaves_nothing_of_the_chart(self):
        release = self.release("resourceQuota.enabled=true", "networkPolicy.enabled=true")
        release.helm("uninstall", release.name, "--wait")
        for kind in ("daemonsets", "pods", "configmaps", "serviceaccounts", "services", "resourcequotas", "networkpolicies",
                     "clusterroles", "clusterrolebindings", "deviceclasses", "validatingadmissionpolicies",
                     "validatingadmissionpolicybindings"):
            until(f"no {kind} are left",
                  lambda: not get(kind, "-A", "-l", f"app.kubernetes.io/instance={release.name}")["items"])
        until("the kubelet deletes the slices", lambda: not release.slices())


if __name__ == "__main__":
    unittest.main()
