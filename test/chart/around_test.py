"""Names, and the objects around the DaemonSet: metrics, network policy, quota."""

import unittest

import helm

DEFAULT_KINDS = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "DeviceClass", "Service", "ServiceAccount",
                 "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "DeviceClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
EVERYTHING = {"resourceQuota": {"enabled": True}, "serviceMonitor": {"enabled": True}, "networkPolicy": {"enabled": True},
              "openshift": {"enabled": True}}


def contains(labels, selector):
    return all(labels.get(key) == value for key, value in selector.items())


class Names(helm.ChartTest):
    def test_the_same_objects_on_every_kubernetes(self):
        for kubernetes in helm.KUBERNETES:
            self.assertEqual(self.render(kubernetes=kubernetes).kinds, DEFAULT_KINDS)

    def test_namespaced_objects_are_in_the_namespace(self):
        for values, namespace in ((EVERYTHING, "dra"), (dict(EVERYTHING, namespaceOverride="other"), "other")):
            for rendered in self.render(values).all:
                where = None if rendered["kind"] in CLUSTER_WIDE else namespace
                self.assertEqual(rendered["metadata"].get("namespace"), where, rendered["kind"])

    def test_cluster_wide_objects_of_two_namespaces_do_not_clash(self):
        def names(namespace, driver):
            objects = self.render({"driverName": driver}, namespace=namespace).all
            return {(o["kind"], o["metadata"]["name"]) for o in objects if o["kind"] in CLUSTER_WIDE}
        self.assertEqual(names("one", "a.example.com") & names("two", "b.example.com"), set())

    def test_every_object_says_whose_it_is(self):
        for rendered in self.render(EVERYTHING).all:
            labels = rendered["metadata"]["labels"]
            self.assertEqual(labels["app.kubernetes.io/instance"], helm.RELEASE)
            self.assertEqual(labels["app.kubernetes.io/managed-by"], "Helm")
            self.assertEqual(labels["app.kubernetes.io/version"], "0.1.0")
            self.assertEqual(labels["app.kubernetes.io/component"], "kubeletplugin")

    def test_overrides(self):
        def name(values):
            return self.render(values).one("DaemonSet")["metadata"]["name"]
        self.assertEqual(name({}), "rel-dra-driver-kubeletplugin")
        self.assertEqual(name({"nameOverride": "n"}), "rel-n-kubeletplugin")
        self.assertEqual(name({"fullnameOverride": "f"}), "f-kubeletplugin")
        self.assertEqual(name({"nameOverride": "re"}), "rel-kubeletplugin")

    def test_a_long_release_name_fits_everywhere(self):
        objects = self.render(helm.merge(EVERYTHING, {"fullnameOverride": "x" * 63}))
        self.assertEqual(objects.one("Service")["metadata"]["name"], "x" * 41 + "-kubeletplugin-metrics")
        for kind in ("ConfigMap", "ServiceAccount", "ResourceQuota", "NetworkPolicy"):
            self.assertEqual(objects.one(kind)["metadata"]["name"], "x" * 63)

    def test_selectors_find_the_pods(self):
        for values in (EVERYTHING, dict(EVERYTHING, selectorLabelsOverride={"own": "label"})):
            objects = self.render(values)
            daemon_set = objects.one("DaemonSet")["spec"]
            labels = daemon_set["template"]["metadata"]["labels"]
            for selector in (daemon_set["selector"]["matchLabels"], objects.one("Service")["spec"]["selector"],
                             objects.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]):
                self.assertTrue(contains(labels, selector), (labels, selector))
                self.assertIn("app.kubernetes.io/component", selector)

    def test_the_override_replaces_the_selector(self):
        objects = self.render({"selectorLabelsOverride": {"own": "label"}})
        self.assertEqual(objects.one("DaemonSet")["spec"]["selector"]["matchLabels"],
                         {"own": "label", "app.kubernetes.io/component": "kubeletplugin"})

    def test_a_parent_chart_may_share_values(self):
        self.assertEqual(self.render({"global": {"a": 1}}).kinds, DEFAULT_KINDS)


class Metrics(helm.ChartTest):
    def test_the_service_leads_to_the_port(self):
        objects = self.render({"kubeletPlugin": {"containers": {"plugin": {"metricsPort": 9000}}}})
        service = objects.one("Service")["spec"]
        self.assertEqual(service["ports"], [{"name": "metrics", "protocol": "TCP", "port": 9000, "targetPort": "metrics"}])
        self.assertEqual(service["clusterIP"], "None")

    def test_no_service_without_a_port(self):
        for port in (0, -1):
            self.assertEqual(self.render({"kubeletPlugin": {"containers": {"plugin": {"metricsPort": port}}}}).of("Service"), [])

    def test_the_service_monitor_finds_the_service(self):
        objects = self.render({"serviceMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "p"}}})
        monitor, service = objects.one("ServiceMonitor"), objects.one("Service")
        self.assertTrue(contains(service["metadata"]["labels"], monitor["spec"]["selector"]["matchLabels"]))
        self.assertEqual(monitor["spec"]["namespaceSelector"]["matchNames"], [service["metadata"]["namespace"]])
        self.assertEqual(monitor["spec"]["endpoints"],
                         [{"port": service["spec"]["ports"][0]["name"], "path": "/metrics", "interval": "1m"}])
        self.assertEqual(monitor["metadata"]["labels"]["release"], "p")


class NetworkPolicy(helm.ChartTest):
    def spec(self, **values):
        return self.render(helm.merge({"networkPolicy": {"enabled": True}}, values)).one("NetworkPolicy")["spec"]

    def test_lets_metrics_in_and_the_api_server_out(self):
        spec = self.spec()
        self.assertEqual(spec["policyTypes"], ["Ingress", "Egress"])
        self.assertEqual(spec["ingress"], [{"ports": [{"protocol": "TCP", "port": "metrics"}]}])
        self.assertEqual(spec["egress"], [{"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}])

    def test_who_reads_metrics_and_where_the_api_server_is_can_be_said(self):
        peers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
        spec = self.spec(networkPolicy={"metricsFrom": peers, "apiServerPorts": [8443]})
        self.assertEqual(spec["ingress"][0]["from"], peers)
        self.assertEqual(spec["egress"], [{"ports": [{"protocol": "TCP", "port": 8443}]}])

    def test_nothing_comes_in_without_metrics(self):
        self.assertNotIn("ingress", self.spec(kubeletPlugin={"containers": {"plugin": {"metricsPort": -1}}}))


class Quota(helm.ChartTest):
    def test_admits_pods_of_the_system_priority_classes(self):
        spec = self.render({"resourceQuota": {"enabled": True, "pods": 30}}).one("ResourceQuota")["spec"]
        self.assertEqual(spec["hard"], {"pods": "30"})
        (expression,) = spec["scopeSelector"]["matchExpressions"]
        self.assertEqual(expression["scopeName"], "PriorityClass")
        self.assertIn(self.render().pod["priorityClassName"], expression["values"])


if __name__ == "__main__":
    unittest.main()
