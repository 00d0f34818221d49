"""The example for NVIDIA GPUs: what claims and pods written for NVIDIA's own driver and device plugin lean on."""

import unittest

import yaml

import helm

DRIVER = "gpu.nvidia.com"


class Example(helm.ChartTest):
    def setUp(self):
        self.values = yaml.safe_load((helm.CHART / "examples" / "nvidia.yaml").read_text())

    def classes(self):
        return {c["metadata"]["name"]: c["spec"] for c in self.render(self.values).of("DeviceClass")}

    def selectors(self, spec):
        return [selector["cel"]["expression"] for selector in spec["selectors"]]

    def test_the_classes_are_those_of_the_public_driver(self):
        classes = self.classes()
        self.assertEqual(set(classes), {"gpu.nvidia.com", "mig.nvidia.com"})
        for name, type_ in (("gpu.nvidia.com", "gpu"), ("mig.nvidia.com", "mig")):
            self.assertEqual(self.selectors(classes[name]),
                             [f"device.driver == '{DRIVER}'", f"device.attributes['{DRIVER}'].type == '{type_}'"])

    def test_only_whole_gpus_are_the_extended_resource(self):
        classes = self.classes()
        self.assertEqual(classes["gpu.nvidia.com"]["extendedResourceName"], "nvidia.com/gpu")
        self.assertNotIn("extendedResourceName", classes["mig.nvidia.com"])

    def test_the_extended_resource_is_optional(self):
        for device_class in self.values["drivers"][0]["deviceClasses"]:
            device_class.pop("extendedResourceName", None)
        for spec in self.classes().values():
            self.assertNotIn("extendedResourceName", spec)

    def test_the_backend_looks_where_the_host_is_mounted(self):
        objects = self.render(self.values)
        (driver,) = objects.config["drivers"]
        self.assertEqual((driver["name"], driver["backend"]), (DRIVER, "nvidia"))
        self.assertEqual(objects.mounts()[driver["config"]["hostRoot"]][0], "/")


if __name__ == "__main__":
    unittest.main()
