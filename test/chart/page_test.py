"""helm lint, NOTES.txt, the examples, and the chart's README."""

import json
import re
import unittest

import yaml

import helm


class Lint(helm.ChartTest):
    def test_helm_lint_has_nothing_to_say(self):
        sets = [{}, {"deviceProfile": "cpu"}, {"kubeletPlugin": {"hostNetwork": True}}]
        for kubernetes in helm.KUBERNETES:
            for values in sets:
                arguments = [f"--set-json={name}={json.dumps(value)}"
                             for name, value in values.items()]
                status, output, error = helm.run("lint", "--strict", "--namespace", helm.NAMESPACE,
                                                 "--kube-version", kubernetes, str(helm.CHART), *arguments)
                self.assertEqual(status, 0, output + error)
                self.assertIn("0 chart(s) failed", output)

    def test_the_chart_has_the_projects_version(self):
        chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
        project = re.search(r"project\(dra_sdk VERSION (\S+)", (helm.REPOSITORY / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(chart["appVersion"], project)
        self.assertEqual(chart["version"], project)


class Notes(helm.ChartTest):
    DRIVERS = {"drivers": [{"name": "a.example.com", "backend": "fake", "deviceClasses": [{"name": "first"}, {"name": "second"}]},
                           {"name": "b.example.com", "backend": "fake"}]}

    def test_name_drivers_slices_and_classes(self):
        notes = self.notes(self.DRIVERS)
        for text in ("a.example.com on the backend fake", "--field-selector spec.driver=a.example.com",
                     "--field-selector spec.driver=b.example.com", "get deviceclasses first second b.example.com"):
            self.assertIn(text, notes)

    def test_have_a_claim_and_a_pod_that_are_valid(self):
        (apply,) = [c for c in helm.commands(self.notes(self.DRIVERS)) if "<<" in c]
        template, pod = yaml.safe_load_all(re.search(r"<<'END'\n(.*)\nEND", apply, re.DOTALL).group(1))
        self.assertEqual(template["kind"], "ResourceClaimTemplate")
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        self.assertEqual(request["exactly"], {"deviceClassName": "first"})
        (claim,) = pod["spec"]["resourceClaims"]
        self.assertEqual(claim["resourceClaimTemplateName"], template["metadata"]["name"])
        self.assertEqual(pod["spec"]["containers"][0]["resources"]["claims"], [{"name": claim["name"]}])

    def test_no_example_claim_without_a_class(self):
        notes = self.notes({"drivers": [{"name": "a.example.com", "backend": "fake", "deviceClasses": []}]})
        self.assertNotIn("ResourceClaimTemplate", notes)
        self.assertNotIn("get deviceclasses", notes)

    def test_have_commands_for_each_driver(self):
        commands = helm.commands(self.notes(self.DRIVERS))
        for what in ("get resourceslices", " drain ", " uninstall-check "):
            names = [re.search(r"(?:driver=|--driver )([a-z.]+)", c).group(1) for c in commands if what in c]
            self.assertEqual(names, ["a.example.com", "b.example.com"], what)

    def test_say_where_the_status_socket_is(self):
        self.assertIn("/k/plugins/gpu.example.com/status-*.sock", self.notes({"kubeletRoot": "/k"}))

    def test_say_the_order_of_an_uninstall(self):
        notes = self.notes()
        places = [notes.index(text) for text in ("drain --config", "delete the pods", "uninstall-check", "uninstall rel")]
        self.assertEqual(places, sorted(places))

    def test_say_where_metrics_are(self):
        self.assertIn("port 8080", self.notes())
        self.assertIn("httpPort", self.notes({"kubeletPlugin": {"hostNetwork": True}}))

    def test_warn_of_the_upgrade_to_1_36(self):
        for kubernetes in helm.KUBERNETES:
            self.assertEqual("helm upgrade" in self.notes(kubernetes=kubernetes), kubernetes < "1.36", kubernetes)


class Pages(helm.ChartTest):
    def test_every_example_is_valid(self):
        examples = sorted((helm.CHART / "examples").glob("*.yaml"))
        self.assertTrue(examples)
        for example in examples:
            values = yaml.safe_load(example.read_text())
            for kubernetes in helm.KUBERNETES:
                with self.subTest(example=example.name, kubernetes=kubernetes):
                    drivers = self.render(values, kubernetes=kubernetes).config["drivers"]
                    self.assertEqual([d["name"] for d in drivers], [d["name"] for d in values["drivers"]])

    def paths(self, values, prefix=""):
        for name, value in values.items():
            path = f"{prefix}{name}"
            nested = isinstance(value, dict) and value and path not in (
                "hardware", "kubeletPlugin.updateStrategy", "resourceQuota.scopeSelector", "kubeletPlugin.containers.plugin.resources")
            yield from self.paths(value, path + ".") if nested else [path]

    def test_the_readme_names_every_value(self):
        values = yaml.safe_load((helm.CHART / "values.yaml").read_text())
        readme = (helm.CHART / "README.md").read_text().partition("\n## Values\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", readme, re.MULTILINE)
        named = set()
        for row in rows:
            whole = ""
            for name in re.findall(r"`([^`]*)`", row):
                # `a.b`, `.c` stands for a.b and a.c
                whole = whole.rpartition(".")[0] + name if name.startswith(".") else name
                named.add(whole)
        self.assertEqual(named, set(self.paths(values)))

    def test_the_defaults_are_valid_by_the_schema_alone(self):
        values = yaml.safe_load((helm.CHART / "values.yaml").read_text())
        self.render(values)


if __name__ == "__main__":
    unittest.main()
