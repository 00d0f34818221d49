"""Values that users of kubernetes-sigs/dra-example-driver's chart have (its names and defaults, state of July 2026)."""

import unittest

import helm

# Every value of that chart with its default.
EXAMPLE_DRIVER = {
    "nameOverride": "", "fullnameOverride": "", "namespaceOverride": "", "selectorLabelsOverride": {},
    "allowDefaultNamespace": False, "deviceProfile": "gpu", "driverName": "",
    "deviceClass": {"extendedResourceName": ""}, "gpuDeviceStatus": False, "gpuAllowMultipleAllocations": False,
    "imagePullSecrets": [], "image": {"repository": "example/driver", "pullPolicy": "IfNotPresent", "tag": ""},
    "serviceAccount": {"create": True, "annotations": {}, "name": ""},
    "kubeletPlugin": {
        "numDevices": 8, "gpuPartitions": 0, "cpu": {"numaNodes": 8, "cpusPerNUMANode": 4},
        "priorityClassName": "system-node-critical",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "podAnnotations": {}, "podSecurityContext": {}, "nodeSelector": {}, "tolerations": [], "affinity": {},
        "kubeletRegistrarDirectoryPath": "/var/lib/kubelet/plugins_registry",
        "kubeletPluginsDirectoryPath": "/var/lib/kubelet/plugins", "bindingConditions": False,
        "containers": {
            "init": {"securityContext": {}, "resources": {}},
            "plugin": {"securityContext": {"privileged": True}, "resources": {}, "healthcheckPort": 51515, "metricsPort": 8080}}},
    "controller": {"plugins": []},
    "webhook": {
        "enabled": False, "servicePort": 443, "containerPort": 443, "priorityClassName": "system-cluster-critical",
        "strategy": {"type": "RollingUpdate"}, "podAnnotations": {}, "podSecurityContext": {}, "nodeSelector": {},
        "tolerations": [], "affinity": {},
        "containers": {"webhook": {"securityContext": {"privileged": False}, "resources": {}}},
        "serviceAccount": {"create": True, "annotations": {}, "name": ""}},
    "resourceQuota": {
        "enabled": False, "pods": 10,
        "scopeSelector": {"matchExpressions": [{"operator": "In", "scopeName": "PriorityClass",
                                                "values": ["system-node-critical", "system-cluster-critical"]}]}},
}


class ExampleDriversValues(helm.ChartTest):
    def test_all_of_its_defaults_are_taken(self):
        for kubernetes in helm.KUBERNETES:
            objects = self.render(EXAMPLE_DRIVER, kubernetes=kubernetes)
            self.assertEqual(objects.container["image"], "example/driver:0.1.0")
            self.assertTrue(objects.container["securityContext"]["privileged"])
            self.assertEqual(objects.config, self.render().config)

    def test_what_its_suite_installs(self):
        """test/e2e there: these values, and then DaemonSet, class and slices by these names."""
        base = {"driverName": "dra-x.example.com", "namespaceOverride": "dra-y", "gpuDeviceStatus": False,
                "gpuAllowMultipleAllocations": False, "kubeletPlugin": {"numDevices": 2}, "webhook": {"enabled": False}}
        for name, more in {
            "gpu": {},
            "status": {"gpuDeviceStatus": True},
            "extended resource": {"deviceClass": {"extendedResourceName": "example.com/gpu-ext-resource"}},
            "net": {"deviceProfile": "net", "kubeletPlugin": {"numDevices": 4}},
            "shared": {"gpuAllowMultipleAllocations": True},
            "shared partitions": {"gpuAllowMultipleAllocations": True, "kubeletPlugin": {"gpuPartitions": 4}},
            "cpu": {"deviceProfile": "cpu", "kubeletPlugin": {"cpu": {"numaNodes": 1, "cpusPerNUMANode": 2}}},
        }.items():
            with self.subTest(name):
                objects = self.render(helm.merge(base, more))
                daemon_set = objects.one("DaemonSet")
                self.assertEqual(daemon_set["metadata"]["namespace"], "dra-y")
                self.assertEqual(daemon_set["metadata"]["labels"]["app.kubernetes.io/component"], "kubeletplugin")
                pod_labels = daemon_set["spec"]["template"]["metadata"]["labels"]
                self.assertEqual(pod_labels["app.kubernetes.io/component"], "kubeletplugin")
                self.assertEqual(objects.one("DeviceClass")["metadata"]["name"], "dra-x.example.com")
                (driver,) = objects.config["drivers"]
                self.assertEqual(driver["name"], "dra-x.example.com")
                self.assertEqual(objects.container["name"], "plugin")

    def test_what_is_not_there_yet_is_refused_by_its_name(self):
        self.refused(helm.merge(EXAMPLE_DRIVER, {"webhook": {"enabled": True}}), "webhook.enabled=true")
        self.refused(helm.merge(EXAMPLE_DRIVER, {"controller": {"plugins": ["BindingConditions"]}}), "controller.plugins")
        self.refused(helm.merge(EXAMPLE_DRIVER, {"kubeletPlugin": {"bindingConditions": True}}), "kubeletPlugin.bindingConditions=true")

    def test_a_relocated_root_in_its_two_paths(self):
        values = helm.merge(EXAMPLE_DRIVER, {"kubeletPlugin": {
            "kubeletRegistrarDirectoryPath": "/k/plugins_registry", "kubeletPluginsDirectoryPath": "/k/plugins"}})
        self.assertEqual(self.render(values).config["kubeletRoot"], "/k")


if __name__ == "__main__":
    unittest.main()
