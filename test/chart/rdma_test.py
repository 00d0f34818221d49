"""The example for RDMA NICs: the names that claims written for dranet lean on."""

import unittest

import yaml

import helm


class Example(helm.ChartTest):
    def setUp(self):
        self.objects = self.render(yaml.safe_load((helm.CHART / "examples" / "rdma.yaml").read_text()))

    def test_the_driver_has_the_name_of_the_public_one(self):
        (driver,) = self.objects.config["drivers"]
        self.assertEqual((driver["name"], driver["backend"]), ("dra.net", "rdma"))

    def test_the_status_of_claims_is_written_and_permitted(self):
        self.assertTrue(self.objects.config["drivers"][0]["deviceStatus"])
        rules = [rule for role in self.objects.of("ClusterRole") for rule in role["rules"]]
        self.assertTrue(any("resourceclaims/status" in rule["resources"] for rule in rules), rules)

    def test_one_class_has_every_nic_and_one_those_with_rdma(self):
        classes = {c["metadata"]["name"]: [s["cel"]["expression"] for s in c["spec"]["selectors"]] for c in self.objects.of("DeviceClass")}
        self.assertEqual(classes, {"dra.net": ["device.driver == 'dra.net'"],
                                   "rdma-nic": ["device.driver == 'dra.net'", "device.attributes['dra.net'].rdma"]})


if __name__ == "__main__":
    unittest.main()
