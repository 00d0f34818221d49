"""What is refused, and what is said then."""

import json
import unittest

import helm


class Namespace(helm.ChartTest):
    def test_default_is_refused(self):
        self.refused({}, 'not installed in the namespace "default"', "--namespace", "allowDefaultNamespace=true", namespace="default")

    def test_default_can_be_allowed(self):
        self.render({"allowDefaultNamespace": True}, namespace="default")

    def test_default_that_is_overridden_is_taken(self):
        self.assertEqual(self.render({"namespaceOverride": "x"}, namespace="default").one("DaemonSet")["metadata"]["namespace"], "x")


class NotThereYet(helm.ChartTest):
    def test_webhook(self):
        self.refused({"webhook": {"enabled": True}}, "webhook.enabled=true", "no admission webhook yet", "Set webhook.enabled=false")

    def test_controller(self):
        self.refused({"controller": {"plugins": ["BindingConditions"]}}, "controller.plugins=[BindingConditions]", "no controller yet")

    def test_binding_conditions(self):
        self.refused({"kubeletPlugin": {"bindingConditions": True}}, "kubeletPlugin.bindingConditions=true", "not there yet")

    def test_init_container(self):
        for values in ({"securityContext": {"privileged": True}}, {"resources": {"limits": {"cpu": "1"}}}):
            self.refused({"kubeletPlugin": {"containers": {"init": values}}}, "kubeletPlugin.containers.init", "no init container")


class KubeletPaths(helm.ChartTest):
    def test_two_roots(self):
        plugin = {"kubeletRegistrarDirectoryPath": "/a/plugins_registry", "kubeletPluginsDirectoryPath": "/b/plugins"}
        self.refused({"kubeletPlugin": plugin}, "kubeletPluginsDirectoryPath=/b/plugins", "the kubelet root /a", "set kubeletRoot")

    def test_another_name(self):
        self.refused({"kubeletPlugin": {"kubeletRegistrarDirectoryPath": "/a/registry"}},
                     "kubeletRegistrarDirectoryPath=/a/registry", "plugins_registry", "kubeletRoot")
        self.refused({"kubeletPlugin": {"kubeletPluginsDirectoryPath": "/a/plug"}}, "kubeletPluginsDirectoryPath=/a/plug")

    def test_a_root_of_its_own_beside(self):
        self.refused({"kubeletRoot": "/c", "kubeletPlugin": {"kubeletPluginsDirectoryPath": "/a/plugins"}},
                     "kubeletRoot=/c", "/a", "differ")


class Drivers(helm.ChartTest):
    ONE = {"name": "a.example.com", "backend": "fake"}

    def test_one_name_twice(self):
        self.refused({"drivers": [self.ONE, self.ONE]}, "the name a.example.com is there twice")

    def test_one_class_twice(self):
        other = {"name": "b.example.com", "backend": "fake", "deviceClasses": [{"name": "a.example.com"}]}
        self.refused({"drivers": [self.ONE, other]}, "two DeviceClasses have the name a.example.com")

    def test_values_of_the_default_driver_beside(self):
        for name, values in {
            "driverName": {"driverName": "x.example.com"},
            "deviceProfile": {"deviceProfile": "net"},
            "gpuDeviceStatus": {"gpuDeviceStatus": True},
            "gpuAllowMultipleAllocations": {"gpuAllowMultipleAllocations": True},
            "deviceClass.extendedResourceName": {"deviceClass": {"extendedResourceName": "example.com/x"}},
            "kubeletPlugin.gpuPartitions": {"kubeletPlugin": {"gpuPartitions": 2}},
        }.items():
            with self.subTest(name):
                self.refused(dict(values, drivers=[self.ONE]), f"{name}: describes the default driver", "`drivers`")

    def test_two_paths_at_one_place(self):
        hardware = {"a": {"hostPaths": [{"path": "/x", "mountPath": "/m"}]}, "b": {"hostPaths": [{"path": "/y", "mountPath": "/m"}]}}
        drivers = [{"name": "a.example.com", "backend": "a"}, {"name": "b.example.com", "backend": "b"}]
        self.refused({"drivers": drivers, "hardware": hardware}, "/x and /y", "mounted at /m", "mountPath")

    def test_a_capability_with_its_prefix(self):
        self.refused({"hardware": {"acme": {"capabilities": ["CAP_SYS_ADMIN"]}}}, "hardware.acme.capabilities", "without CAP_", "SYS_ADMIN")


class Access(helm.ChartTest):
    def test_the_default_service_account(self):
        self.refused({"serviceAccount": {"create": False}}, "serviceAccount.create=false", "serviceAccount.name")


class HostNetwork(helm.ChartTest):
    def test_service_monitor_on_the_hosts_network(self):
        self.refused({"kubeletPlugin": {"hostNetwork": True}, "serviceMonitor": {"enabled": True}},
                     "serviceMonitor.enabled=true", "host's network", "httpPort")

    def test_service_monitor_without_a_port(self):
        self.refused({"kubeletPlugin": {"containers": {"plugin": {"metricsPort": -1}}}, "serviceMonitor": {"enabled": True}},
                     "serviceMonitor.enabled=true", "metricsPort")

    def test_network_policy_on_the_hosts_network(self):
        self.refused({"kubeletPlugin": {"hostNetwork": True}, "networkPolicy": {"enabled": True}},
                     "networkPolicy.enabled=true", "does not hold")


class KubernetesVersion(helm.ChartTest):
    def test_before_1_34(self):
        self.refused({}, "chart requires kubeVersion: >=1.34.0-0", "v1.33.9", kubernetes="1.33.9")

    def test_previews_of_1_34_are_taken(self):
        self.render(kubernetes="1.34.0-rc.1")


class Schema(helm.ChartTest):
    def schema(self):
        return json.loads((helm.CHART / "values.schema.json").read_text())

    def objects(self, schema, path="values"):
        """Every schema of an object with properties, and its path."""
        if "properties" in schema:
            yield path, schema
        for name, child in schema.get("properties", {}).items():
            yield from self.objects(child, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from self.objects(schema[key], f"{path}[]")

    def test_unknown_names_are_refused_at_every_level_of_ours(self):
        for path, schema in self.objects(self.schema()):
            if path != "values.webhook":
                self.assertIs(schema.get("additionalProperties"), False, path)

    def test_everything_is_described(self):
        for path, schema in self.objects(self.schema()):
            for name, child in schema["properties"].items():
                self.assertTrue(child.get("description"), f"{path}.{name}")

    def test_a_misspelt_name(self):
        self.refused({"kubeletPlugin": {"numDevice": 1}}, "/kubeletPlugin", "'numDevice' not allowed")
        self.refused({"driversName": "x"}, "'driversName' not allowed")
        self.refused({"drivers": [{"name": "a.example.com", "backend": "fake", "cofig": {}}]}, "/drivers/0", "'cofig' not allowed")

    def test_values_out_of_range(self):
        plugin = {"kubeletPlugin": {"containers": {"plugin": {}}}}
        for values, where in [
            ({"deviceProfile": "fpga"}, "/deviceProfile"),
            ({"driverName": "Upper.example.com"}, "/driverName"),
            ({"driverName": "a" * 64}, "/driverName"),
            ({"deviceClass": {"extendedResourceName": "nodomain"}}, "/deviceClass/extendedResourceName"),
            ({"log": {"level": "loud"}}, "/log/level"),
            ({"log": {"format": "xml"}}, "/log/format"),
            ({"shutdownGraceSeconds": 0}, "/shutdownGraceSeconds"),
            ({"shutdownGraceSeconds": 301}, "/shutdownGraceSeconds"),
            ({"kubeletRoot": "relative"}, "/kubeletRoot"),
            ({"kubeletRoot": "/"}, "/kubeletRoot"),
            ({"httpHost": "localhost"}, "/httpHost"),
            ({"image": {"digest": "sha256:1"}}, "/image/digest"),
            ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
            ({"rbac": {"granularStatus": "yes"}}, "/rbac/granularStatus"),
            ({"kubeletPlugin": {"numDevices": -1}}, "/kubeletPlugin/numDevices"),
            ({"kubeletPlugin": {"numDevices": "8"}}, "/kubeletPlugin/numDevices"),
            ({"kubeletPlugin": {"gpuPartitions": 81}}, "/kubeletPlugin/gpuPartitions"),
            ({"kubeletPlugin": {"containers": {"plugin": {"metricsPort": 65536}}}}, "/kubeletPlugin/containers/plugin/metricsPort"),
            ({"drivers": [{"name": "a.example.com"}]}, "/drivers/0"),
            ({"drivers": [{"name": "a_b", "backend": "fake"}]}, "/drivers/0/name"),
            ({"drivers": [{"name": "a", "backend": "../x"}]}, "/drivers/0/backend"),
            ({"drivers": [{"name": "a", "backend": "fake", "orphanGrace": "5"}]}, "/drivers/0/orphanGrace"),
            ({"drivers": [dict(Drivers.ONE, taintEffects={"bySeverity": {"minor": "none"}})]},
             "/drivers/0/taintEffects/bySeverity/minor"),
            ({"drivers": [dict(Drivers.ONE, taintEffects={"bySeverity": {"fatal": "None"}})]}, "/drivers/0/taintEffects/bySeverity"),
            ({"drivers": [dict(Drivers.ONE, taintEffects={"byClass": {"ecc": "Evict"}})]}, "/drivers/0/taintEffects/byClass/ecc"),
            ({"drivers": [dict(Drivers.ONE, taintEffects={"byClass": {"e c": "None"}})]}, "/drivers/0/taintEffects/byClass"),
            ({"hardware": {"x": {"hostPaths": [{"path": "dev"}]}}}, "/hardware/x/hostPaths/0/path"),
            ({"hardware": {"x": {"capabilities": ["net admin"]}}}, "/hardware/x/capabilities/0"),
        ]:
            with self.subTest(where=where, values=values):
                self.refused(helm.merge(plugin, values), f"at '{where}'")


if __name__ == "__main__":
    unittest.main()
