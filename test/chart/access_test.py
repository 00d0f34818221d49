"""What the driver may do: RBAC and the admission policy."""

import unittest

import helm


class Permissions(helm.ChartTest):
    def test_are_exactly_what_the_daemon_calls(self):
        for kubernetes in helm.KUBERNETES:
            with self.subTest(kubernetes):
                granular = [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"],
                             "verbs": ["associated-node:patch"], "resourceNames": ["gpu.example.com"]}]
                self.assertEqual(self.render(kubernetes=kubernetes).one("ClusterRole")["rules"], [
                    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
                    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"],
                     "verbs": ["get", "list", "watch", "create", "update", "delete"]},
                    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
                    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
                    *(granular if kubernetes >= "1.36" else []),
                    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "update"]}])

    def test_status_is_granted_per_driver_that_writes_it(self):
        drivers = [{"name": "a.example.com", "backend": "fake", "deviceStatus": False},
                   {"name": "b.example.com", "backend": "fake", "deviceStatus": True},
                   {"name": "c.example.com", "backend": "fake"}]
        rule = self.render({"drivers": drivers}).rule("resourceclaims/driver")
        self.assertEqual(rule["resourceNames"], ["b.example.com", "c.example.com"])

    def test_status_is_not_granted_where_no_driver_writes_it(self):
        objects = self.render({"drivers": [{"name": "a.example.com", "backend": "fake", "deviceStatus": False}]})
        self.assertIsNone(objects.rule("resourceclaims/status"))
        self.assertIsNone(objects.rule("resourceclaims/driver"))

    def test_the_granular_permission_can_be_forced(self):
        for kubernetes in helm.KUBERNETES:
            for wanted in ("always", "never"):
                rule = self.render({"rbac": {"granularStatus": wanted}}, kubernetes=kubernetes).rule("resourceclaims/driver")
                self.assertEqual(rule is not None, wanted == "always", (kubernetes, wanted))

    def test_a_patch_or_preview_release_counts_as_its_minor(self):
        for kubernetes, granular in (("1.35.9", False), ("1.36.0-alpha.1", True), ("1.36.4+vendor.1", True)):
            rule = self.render(kubernetes=kubernetes).rule("resourceclaims/driver")
            self.assertEqual(rule is not None, granular, kubernetes)

    def test_belong_to_the_pods_service_account(self):
        for values, name in (({}, "rel-dra-driver"), ({"serviceAccount": {"name": "own"}}, "own"),
                             ({"serviceAccount": {"name": "own", "create": False}}, "own")):
            objects = self.render(values)
            self.assertEqual(objects.pod["serviceAccountName"], name)
            binding = objects.one("ClusterRoleBinding")
            self.assertEqual(binding["subjects"], [{"kind": "ServiceAccount", "name": name, "namespace": helm.NAMESPACE}])
            self.assertEqual(binding["roleRef"]["name"], objects.one("ClusterRole")["metadata"]["name"])
            made = [account["metadata"]["name"] for account in objects.of("ServiceAccount")]
            self.assertEqual(made, [] if values.get("serviceAccount", {}).get("create") is False else [name])

    def test_the_token_is_mounted_in_the_drivers_pod_alone(self):
        objects = self.render()
        self.assertFalse(objects.one("ServiceAccount")["automountServiceAccountToken"])
        self.assertTrue(objects.pod["automountServiceAccountToken"])

    def test_annotations_of_the_service_account_are_passed_on(self):
        account = self.render({"serviceAccount": {"annotations": {"a": "b"}}}).one("ServiceAccount")
        self.assertEqual(account["metadata"]["annotations"], {"a": "b"})


class AdmissionPolicy(helm.ChartTest):
    def test_is_bound_and_denies(self):
        objects = self.render()
        binding = objects.one("ValidatingAdmissionPolicyBinding")
        self.assertEqual(binding["spec"], {"policyName": objects.one("ValidatingAdmissionPolicy")["metadata"]["name"],
                                           "validationActions": ["Deny"]})

    def test_looks_at_every_write_of_a_slice_in_every_version(self):
        spec = self.render().one("ValidatingAdmissionPolicy")["spec"]
        self.assertEqual(spec["matchConstraints"], {
            "matchPolicy": "Equivalent",
            "resourceRules": [{"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"],
                               "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["resourceslices"]}]})
        self.assertEqual(spec["failurePolicy"], "Fail")

    def test_holds_for_the_drivers_service_account_alone(self):
        for values, user in (({}, "dra:rel-dra-driver"), ({"namespaceOverride": "n", "serviceAccount": {"name": "s"}}, "n:s")):
            (condition,) = self.render(values).one("ValidatingAdmissionPolicy")["spec"]["matchConditions"]
            self.assertEqual(condition["expression"], f'request.userInfo.username == "system:serviceaccount:{user}"')

    def test_compares_the_slices_node_with_the_tokens(self):
        spec = self.render().one("ValidatingAdmissionPolicy")["spec"]
        variables = {v["name"]: v["expression"] for v in spec["variables"]}
        self.assertIn("authentication.kubernetes.io/node-name", variables["callersNode"])
        self.assertIn("oldObject", variables["slicesNode"])
        self.assertEqual([v["expression"] for v in spec["validations"]],
                         ['variables.callersNode != ""', "variables.callersNode == variables.slicesNode"])


class OpenShift(helm.ChartTest):
    def test_is_off_by_default(self):
        self.assertEqual(self.render().of("RoleBinding"), [])

    def test_binds_the_constraint_and_sets_the_selinux_type(self):
        objects = self.render({"openshift": {"enabled": True}})
        binding = objects.one("RoleBinding")
        self.assertEqual(binding["metadata"]["namespace"], helm.NAMESPACE)
        self.assertEqual(binding["roleRef"]["name"], "system:openshift:scc:privileged")
        self.assertEqual(binding["subjects"][0]["name"], objects.pod["serviceAccountName"])
        self.assertEqual(objects.container["securityContext"]["seLinuxOptions"], {"type": "spc_t"})

    def test_own_constraint_and_selinux_options_are_kept(self):
        objects = self.render({"openshift": {"enabled": True, "scc": "own"}, "kubeletPlugin": {"seLinuxOptions": {"level": "s0"}}})
        self.assertEqual(objects.one("RoleBinding")["roleRef"]["name"], "system:openshift:scc:own")
        self.assertEqual(objects.container["securityContext"]["seLinuxOptions"], {"level": "s0"})

    def test_gives_the_pod_no_privilege(self):
        self.assertNotIn("privileged", self.render({"openshift": {"enabled": True}}).container["securityContext"])


if __name__ == "__main__":
    unittest.main()
