"""Drivers, their classes and what their hardware needs."""

import re
import unittest

import yaml

import helm


def several():
    return [
        {"name": "a.example.com", "backend": "fake", "config": {"numDevices": 1}, "discoverInterval": "30s"},
        {"name": "b.example.com", "backend": "/vendor/dra-backend-acme.so", "deviceStatus": False},
    ]


class DefaultDriver(helm.ChartTest):
    def only(self, **values):
        (driver,) = self.render(values).config["drivers"]
        return driver

    def test_gpu(self):
        self.assertEqual(self.only(), {
            "name": "gpu.example.com", "backend": "fake",
            "config": {"profile": "gpu", "numDevices": 8, "partitions": 0, "shared": False, "deviceStatus": False}})

    def test_gpu_options(self):
        driver = self.only(gpuDeviceStatus=True, gpuAllowMultipleAllocations=True,
                           kubeletPlugin={"numDevices": 2, "gpuPartitions": 4})
        self.assertEqual(driver["config"],
                         {"profile": "gpu", "numDevices": 2, "partitions": 4, "shared": True, "deviceStatus": True})

    def test_net(self):
        driver = self.only(deviceProfile="net", kubeletPlugin={"numDevices": 4})
        self.assertEqual(driver, {"name": "net.example.com", "backend": "fake", "config": {"profile": "net", "numDevices": 4}})

    def test_cpu(self):
        driver = self.only(deviceProfile="cpu", kubeletPlugin={"cpu": {"numaNodes": 1, "cpusPerNUMANode": 2}})
        self.assertEqual(driver, {
            "name": "cpu.example.com", "backend": "fake",
            "config": {"profile": "cpu", "driverName": "cpu.example.com", "numaNodes": 1, "cpusPerNUMANode": 2}})

    def test_the_name_can_be_chosen(self):
        self.assertEqual(self.only(driverName="x.example.org", deviceProfile="net")["name"], "x.example.org")

    def test_large_numbers_stay_integers(self):
        driver = self.only(kubeletPlugin={"numDevices": 65536})
        self.assertIsInstance(driver["config"]["numDevices"], int)
        self.assertEqual(driver["config"]["numDevices"], 65536)

    def test_its_options_are_known_to_the_fake_backend(self):
        readme = (helm.REPOSITORY / "backends/fake/README.md").read_text()
        known = set(re.findall(r"^\| `(\w+)`", readme, re.MULTILINE))
        for profile in ("gpu", "net", "cpu"):
            self.assertLessEqual(set(self.only(deviceProfile=profile)["config"]), known)


class DefaultClass(helm.ChartTest):
    def only(self, **values):
        return self.render(values).one("DeviceClass")

    def test_has_the_drivers_name_and_selects_its_devices(self):
        for name in ("gpu.example.com", "x.example.org"):
            device_class = self.only(driverName=name)
            self.assertEqual(device_class["apiVersion"], "resource.k8s.io/v1")
            self.assertEqual(device_class["metadata"]["name"], name)
            self.assertEqual(device_class["spec"], {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]})

    def test_extended_resource_name(self):
        spec = self.only(deviceClass={"extendedResourceName": "example.com/gpu"})["spec"]
        self.assertEqual(spec["extendedResourceName"], "example.com/gpu")


class SeveralDrivers(helm.ChartTest):
    def test_run_in_one_process(self):
        objects = self.render({"drivers": several()})
        self.assertEqual(objects.config["drivers"], [
            {"name": "a.example.com", "backend": "fake", "config": {"numDevices": 1}, "discoverInterval": "30s"},
            {"name": "b.example.com", "backend": "/vendor/dra-backend-acme.so", "config": {}, "deviceStatus": False}])
        self.assertEqual(len(objects.pod["containers"]), 1)

    def test_taint_effects_are_handed_on_as_they_are(self):
        effects = {"bySeverity": {"critical": "NoExecute", "minor": "None"}, "byClass": {"ecc-contained": "NoSchedule"}}
        drivers = several()
        drivers[0]["taintEffects"] = effects
        first, second = self.render({"drivers": drivers}).config["drivers"]
        self.assertEqual(first["taintEffects"], effects)
        self.assertNotIn("taintEffects", second)

    def test_replace_the_default_driver(self):
        names = [driver["name"] for driver in self.render({"drivers": several()}).config["drivers"]]
        self.assertNotIn("gpu.example.com", names)

    def test_each_has_a_class_of_its_name(self):
        names = [c["metadata"]["name"] for c in self.render({"drivers": several()}).of("DeviceClass")]
        self.assertEqual(sorted(names), ["a.example.com", "b.example.com"])

    def test_classes_can_be_given(self):
        config = [{"opaque": {"driver": "a.example.com", "parameters": {"kind": "K"}}}]
        drivers = several()
        drivers[0]["deviceClasses"] = [
            {"name": "small", "selectors": ['device.attributes["a.example.com"].model == "x"'], "config": config,
             "extendedResourceName": "example.com/small"},
            {"name": "any"}]
        drivers[1]["deviceClasses"] = []
        specs = {c["metadata"]["name"]: c["spec"] for c in self.render({"drivers": drivers}).of("DeviceClass")}
        self.assertEqual(specs, {
            "small": {"selectors": [{"cel": {"expression": "device.driver == 'a.example.com'"}},
                                    {"cel": {"expression": 'device.attributes["a.example.com"].model == "x"'}}],
                      "config": config, "extendedResourceName": "example.com/small"},
            "any": {"selectors": [{"cel": {"expression": "device.driver == 'a.example.com'"}}]}})

    def test_every_key_of_the_configuration_page_can_be_given(self):
        page = (helm.REPOSITORY / "docs/configuration.md").read_text()
        documented = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL).group(1))
        schema = yaml.safe_load((helm.CHART / "values.schema.json").read_text())
        ours = set(schema["properties"]["drivers"]["items"]["properties"]) - {"deviceClasses"}
        self.assertEqual(ours, set(documented["drivers"][0]))

    def test_the_configuration_has_only_documented_keys(self):
        page = (helm.REPOSITORY / "docs/configuration.md").read_text()
        documented = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL).group(1))
        config = self.render({"drivers": several()}).config
        self.assertLessEqual(set(config), set(documented))
        self.assertEqual(set(config["log"]), set(documented["log"]))

    def test_releases_on_one_node_tell_their_drivers_apart(self):
        installations = {self.render(namespace=namespace).config["installation"] for namespace in ("one", "two")}
        self.assertEqual(installations, {"one/rel", "two/rel"})

    def test_log_settings_are_passed_on(self):
        self.assertEqual(self.render({"log": {"level": "debug", "format": "json"}}).config["log"],
                         {"level": "debug", "format": "json"})


class Hardware(helm.ChartTest):
    def of(self, *backends, **values):
        drivers = [{"name": f"d{n}.example.com", "backend": backend} for n, backend in enumerate(backends)]
        return self.render(dict(values, drivers=drivers))

    def extra(self, objects):
        return {at: host for at, (host, _, _) in objects.mounts().items()
                if not at.startswith("/var/lib/kubelet/") and at != "/var/run/cdi"}

    def test_fake_needs_nothing(self):
        objects = self.of("fake")
        self.assertEqual(self.extra(objects), {})
        self.assertNotIn("hostNetwork", objects.pod)
        self.assertNotIn("add", objects.container["securityContext"]["capabilities"])

    def test_nvidia_is_privileged_and_sees_the_drivers_root_read_only(self):
        objects = self.of("nvidia")
        self.assertTrue(objects.container["securityContext"]["privileged"])
        self.assertNotIn("hostNetwork", objects.pod)
        self.assertEqual(self.extra(objects), {"/driver-root": "/"})
        mount = objects.mounts()["/driver-root"][1]
        self.assertTrue(mount["readOnly"])
        self.assertEqual(mount["mountPropagation"], "HostToContainer")

    def test_rdma_is_on_the_hosts_network_with_two_capabilities(self):
        objects = self.of("rdma")
        self.assertTrue(objects.pod["hostNetwork"])
        self.assertEqual(objects.container["securityContext"]["capabilities"], {"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_ADMIN"]})
        self.assertEqual(self.extra(objects), {"/dev/infiniband": "/dev/infiniband"})
        self.assertNotIn("ports", objects.container)

    def test_only_who_needs_them_sees_mounts_below_the_plugins_directory(self):
        for backends, seen in ((["rdma"], True), (["fake", "rdma"], True), (["fake", "nvidia"], False)):
            mounts = self.of(*backends).mounts()
            self.assertEqual(mounts["/var/lib/kubelet/plugins"][1].get("mountPropagation"), "HostToContainer" if seen else None)
            self.assertNotIn("mountPropagation", mounts["/var/lib/kubelet/plugins_registry"][1])

    def test_fpga_is_privileged_and_sees_the_hosts_device_nodes(self):
        objects = self.of("fpga")
        self.assertTrue(objects.container["securityContext"]["privileged"])
        self.assertEqual(self.extra(objects), {"/host/dev": "/dev"})

    def test_drivers_of_one_pod_get_what_all_of_them_need(self):
        objects = self.of("rdma", "nvidia", "fake")
        self.assertTrue(objects.pod["hostNetwork"])
        self.assertTrue(objects.container["securityContext"]["privileged"])
        self.assertEqual(self.extra(objects), {"/driver-root": "/", "/dev/infiniband": "/dev/infiniband"})

    def test_a_vendor_adds_an_entry(self):
        hardware = {"acme": {"capabilities": ["SYS_RAWIO"], "hostPaths": [{"path": "/dev/acme", "type": "CharDevice"}]}}
        for backend in ("acme", "/vendor/lib/dra-backend-acme.so"):
            objects = self.of(backend, hardware=hardware)
            self.assertEqual(objects.container["securityContext"]["capabilities"]["add"], ["SYS_RAWIO"])
            self.assertEqual(objects.mounts()["/dev/acme"][2]["hostPath"], {"path": "/dev/acme", "type": "CharDevice"})

    def test_an_entry_of_a_backend_that_does_not_run_is_not_used(self):
        self.assertEqual(self.extra(self.of("fake", hardware={"acme": {"hostPaths": [{"path": "/a"}]}})), {})

    def test_an_entry_can_be_changed(self):
        objects = self.of("nvidia", hardware={"nvidia": {"hostPaths": [{"path": "/run/nvidia/driver", "mountPath": "/driver-root"}]}})
        self.assertEqual(self.extra(objects), {"/driver-root": "/run/nvidia/driver"})

    def test_a_path_that_two_want_is_mounted_once_and_writable_for_the_one_that_writes(self):
        for first, second in ((True, False), (False, True)):
            hardware = {"a": {"hostPaths": [{"path": "/x", "readOnly": first}]},
                        "b": {"hostPaths": [{"path": "/x", "readOnly": second}]}}
            objects = self.of("a", "b", hardware=hardware)
            self.assertEqual(self.extra(objects), {"/x": "/x"})
            self.assertNotIn("readOnly", objects.mounts()["/x"][1])

    def test_capabilities_are_named_once(self):
        hardware = {"a": {"capabilities": ["NET_ADMIN", "SYS_RAWIO"]}, "b": {"capabilities": ["NET_ADMIN"]}}
        context = self.of("b", "a", hardware=hardware).container["securityContext"]
        self.assertEqual(context["capabilities"]["add"], ["NET_ADMIN", "SYS_RAWIO"])


if __name__ == "__main__":
    unittest.main()
