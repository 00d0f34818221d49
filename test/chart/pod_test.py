"""The DaemonSet and its pod."""

import unittest

import helm


class Update(helm.ChartTest):
    def test_the_new_pod_stands_beside_the_old_one(self):
        strategy = self.render().one("DaemonSet")["spec"]["updateStrategy"]
        self.assertEqual(strategy, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})

    def test_the_strategy_can_be_chosen(self):
        values = {"kubeletPlugin": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}
        self.assertEqual(self.render(values).one("DaemonSet")["spec"]["updateStrategy"], {"type": "OnDelete"})

    def annotation(self, values):
        return self.render(values).one("DaemonSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    def test_another_configuration_is_another_pod(self):
        self.assertNotEqual(self.annotation({}), self.annotation({"kubeletPlugin": {"numDevices": 3}}))

    def test_a_value_outside_of_the_configuration_keeps_the_checksum(self):
        self.assertEqual(self.annotation({}), self.annotation({"resourceQuota": {"enabled": True}}))

    def test_each_instance_has_a_name_of_its_own(self):
        fields = {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in self.render().container["env"]}
        self.assertEqual(fields, {"NODE_NAME": "spec.nodeName", "POD_UID": "metadata.uid"})

    def test_the_pod_lives_longer_than_the_shutdown(self):
        for seconds in (1, 20, 300):
            objects = self.render({"shutdownGraceSeconds": seconds})
            self.assertEqual(objects.config["shutdownGrace"], f"{seconds}s")
            self.assertEqual(objects.pod["terminationGracePeriodSeconds"], seconds + 10)


class Command(helm.ChartTest):
    def test_runs_the_daemon_on_its_configuration(self):
        objects = self.render()
        self.assertEqual(objects.container["command"], ["/usr/local/bin/dra-driver", "--config", "/etc/dra/config.yaml"])
        mount = next(m for m in objects.container["volumeMounts"] if m["mountPath"] == "/etc/dra")
        self.assertTrue(mount["readOnly"])
        volume = next(v for v in objects.pod["volumes"] if v["name"] == mount["name"])
        self.assertEqual(volume["configMap"]["name"], objects.one("ConfigMap")["metadata"]["name"])

    def test_the_image_is_that_of_the_chart(self):
        self.assertEqual(self.render().container["image"], "localhost/dra-sdk/dra-driver:0.1.0")

    def test_tag_and_digest_choose_the_image(self):
        image = {"repository": "a/b", "tag": "7"}
        self.assertEqual(self.render({"image": image}).container["image"], "a/b:7")
        image["digest"] = "sha256:" + "0" * 64
        self.assertEqual(self.render({"image": image}).container["image"], "a/b@sha256:" + "0" * 64)

    def test_pull_policy_and_secrets_are_passed_on(self):
        objects = self.render({"image": {"pullPolicy": "Never"}, "imagePullSecrets": [{"name": "s"}]})
        self.assertEqual(objects.container["imagePullPolicy"], "Never")
        self.assertEqual(objects.pod["imagePullSecrets"], [{"name": "s"}])


class Security(helm.ChartTest):
    RESTRICTED = {
        "runAsUser": 0, "runAsNonRoot": False, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }

    def context(self, own, **values):
        plugin = {"containers": {"plugin": {"securityContext": own}}}
        return self.render(helm.merge({"kubeletPlugin": plugin}, values)).container["securityContext"]

    def test_no_privilege_by_default(self):
        self.assertEqual(self.context({}), self.RESTRICTED)

    def test_own_settings_are_laid_over(self):
        expected = dict(self.RESTRICTED, readOnlyRootFilesystem=False, capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]})
        self.assertEqual(
            self.context({"readOnlyRootFilesystem": False, "capabilities": {"add": ["NET_ADMIN"]}}), expected)

    def test_privileged_leaves_out_what_the_server_refuses_beside_it(self):
        self.assertEqual(self.context({"privileged": True}),
                         {"privileged": True, "runAsUser": 0, "runAsNonRoot": False, "readOnlyRootFilesystem": True})

    def test_privileged_false_outranks_the_hardware(self):
        values = {"drivers": [{"name": "a.example.com", "backend": "nvidia"}]}
        context = self.context({"privileged": False}, **values)
        self.assertEqual(context, dict(self.RESTRICTED, privileged=False))

    def test_selinux_options_are_the_containers(self):
        context = self.context({}, kubeletPlugin={"seLinuxOptions": {"type": "spc_t"}})
        self.assertEqual(context, dict(self.RESTRICTED, seLinuxOptions={"type": "spc_t"}))

    def test_no_host_namespace_by_default(self):
        pod = self.render().pod
        for namespace in ("hostNetwork", "hostPID", "hostIPC"):
            self.assertNotIn(namespace, pod)


class Paths(helm.ChartTest):
    def test_host_and_container_agree(self):
        for root in ("/var/lib/kubelet", "/data/kubelet"):
            with self.subTest(root):
                objects = self.render({"kubeletRoot": root})
                hosts = {at: host for at, (host, _, _) in objects.mounts().items()}
                self.assertEqual(hosts, {
                    f"{root}/plugins": f"{root}/plugins",
                    f"{root}/plugins_registry": f"{root}/plugins_registry",
                    "/var/run/cdi": "/var/run/cdi"})
                self.assertEqual(objects.config["kubeletRoot"], root)

    def test_a_wrong_root_is_seen_at_once(self):
        for at, (_, _, volume) in self.render().mounts().items():
            wanted = "DirectoryOrCreate" if at == "/var/run/cdi" else "Directory"
            self.assertEqual(volume["hostPath"]["type"], wanted, at)

    def test_a_slash_at_the_end_is_of_no_meaning(self):
        self.assertEqual(self.render({"kubeletRoot": "/data/kubelet/"}).config["kubeletRoot"], "/data/kubelet")

    def test_the_cdi_directory_can_be_chosen(self):
        objects = self.render({"cdiDirectory": "/etc/cdi"})
        self.assertEqual(objects.mounts()["/etc/cdi"][0], "/etc/cdi")
        self.assertEqual(objects.config["cdiDirectory"], "/etc/cdi")

    def test_both_paths_of_the_example_driver_make_a_root(self):
        plugin = {"kubeletRegistrarDirectoryPath": "/k/plugins_registry", "kubeletPluginsDirectoryPath": "/k/plugins/"}
        objects = self.render({"kubeletPlugin": plugin})
        self.assertEqual(objects.config["kubeletRoot"], "/k")
        self.assertEqual(objects.mounts()["/k/plugins"][0], "/k/plugins")

    def test_one_path_of_the_example_driver_makes_a_root(self):
        for plugin in ({"kubeletRegistrarDirectoryPath": "/k/plugins_registry"}, {"kubeletPluginsDirectoryPath": "/k/plugins"}):
            self.assertEqual(self.render({"kubeletPlugin": plugin}).config["kubeletRoot"], "/k")


class Probes(helm.ChartTest):
    EXEC = ["/usr/local/bin/dra-driver", "--config", "/etc/dra/config.yaml", "--probe"]

    def container(self, **plugin):
        values = {"kubeletPlugin": {"containers": {"plugin": plugin}}}
        return self.render(values).container

    def asks(self, container):
        """Probe -> its path, or its question."""
        result = {}
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(name)
            if probe is None:
                continue
            if "httpGet" in probe:
                self.assertEqual(probe["httpGet"]["port"], "metrics")
                result[name] = probe["httpGet"]["path"]
            else:
                self.assertEqual(probe["exec"]["command"][:-1], self.EXEC)
                result[name] = probe["exec"]["command"][-1]
        return result

    def test_over_http_where_the_port_is_known(self):
        container = self.container(metricsPort=9000)
        self.assertEqual(self.asks(container), {
            "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"})
        self.assertEqual(container["ports"], [{"name": "metrics", "containerPort": 9000, "protocol": "TCP"}])

    def test_by_exec_where_it_is_not(self):
        for port in (0, -1):
            with self.subTest(port):
                container = self.container(metricsPort=port)
                self.assertEqual(self.asks(container), {
                    "startupProbe": "live", "livenessProbe": "live", "readinessProbe": "ready"})
                self.assertNotIn("ports", container)

    def test_a_negative_health_port_switches_liveness_off_alone(self):
        self.assertEqual(self.asks(self.container(healthcheckPort=-1)), {"readinessProbe": "/readyz"})

    def test_an_exec_probe_waits_longer_than_the_program(self):
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertGreater(self.container(metricsPort=-1)[name]["timeoutSeconds"], 5)

    def address(self, port, **values):
        plugin = {"containers": {"plugin": {"metricsPort": port}}}
        return self.render(helm.merge({"kubeletPlugin": plugin}, values)).config["httpAddress"]

    def test_the_process_listens_where_the_probes_ask(self):
        self.assertEqual(self.address(9000), "0.0.0.0:9000")
        self.assertEqual(self.address(0), "0.0.0.0:0")
        self.assertEqual(self.address(-1), "")
        self.assertEqual(self.address(9000, httpHost="[::]"), "[::]:9000")


class HostNetwork(helm.ChartTest):
    VALUES = {"kubeletPlugin": {"hostNetwork": True}}

    def test_no_port_is_declared(self):
        objects = self.render(self.VALUES)
        self.assertTrue(objects.pod["hostNetwork"])
        self.assertNotIn("ports", objects.container)

    def test_probes_are_exec(self):
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertIn("exec", self.render(self.VALUES).container[name])

    def test_metrics_take_a_free_port_and_no_service_points_at_one(self):
        objects = self.render(self.VALUES)
        self.assertEqual(objects.config["httpAddress"], "0.0.0.0:0")
        self.assertEqual(objects.of("Service"), [])

    def test_metrics_can_be_switched_off(self):
        values = helm.merge(self.VALUES, {"kubeletPlugin": {"containers": {"plugin": {"metricsPort": -1}}}})
        self.assertEqual(self.render(values).config["httpAddress"], "")


class Placement(helm.ChartTest):
    def test_selector_tolerations_affinity_and_priority_are_passed_on(self):
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        pod = self.render({"kubeletPlugin": {
            "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": affinity,
            "priorityClassName": "p"}}).pod
        self.assertEqual(pod["nodeSelector"], {"a": "b"})
        self.assertEqual(pod["tolerations"], [{"operator": "Exists"}])
        self.assertEqual(pod["affinity"], affinity)
        self.assertEqual(pod["priorityClassName"], "p")

    def test_the_pod_is_node_critical(self):
        self.assertEqual(self.render().pod["priorityClassName"], "system-node-critical")

    def test_no_priority_class_is_possible(self):
        self.assertNotIn("priorityClassName", self.render({"kubeletPlugin": {"priorityClassName": ""}}).pod)

    def test_resources_annotations_and_pod_security_context_are_passed_on(self):
        objects = self.render({"kubeletPlugin": {
            "podAnnotations": {"a": "b"}, "podSecurityContext": {"fsGroup": 1},
            "containers": {"plugin": {"resources": {"requests": None, "limits": {"memory": "1Gi"}}}}}})
        self.assertEqual(objects.container["resources"], {"limits": {"memory": "1Gi"}})
        self.assertEqual(objects.one("DaemonSet")["spec"]["template"]["metadata"]["annotations"]["a"], "b")
        self.assertEqual(objects.pod["securityContext"], {"fsGroup": 1})


if __name__ == "__main__":
    unittest.main()
