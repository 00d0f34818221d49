"""A value that a user sets to null is gone for the templates: what is optional is off then, what is needed is named.

Field case PKG-06: one null value broke a chart with a nil pointer; a vendor's pre-release version was refused.
"""

import unittest

import yaml

import helm


def paths(values, above=()):
    for key, value in values.items():
        yield above + (key,)
        if isinstance(value, dict) and key != "hardware":
            yield from paths(value, above + (key,))


class Null(helm.ChartTest):
    def test_each_value_renders_or_is_named(self):
        for path in paths(yaml.safe_load((helm.CHART / "values.yaml").read_text())):
            values = None
            for key in reversed(path):
                values = {key: values}
            with self.subTest(".".join(path)):
                code, _, errors = helm.template(values)
                if code != 0:
                    self.assertIn(f"missing property '{path[-1]}'", errors)

    def test_what_a_vendor_calls_its_version_is_taken(self):
        self.render({}, kubernetes="1.34.1-gke.5")


if __name__ == "__main__":
    unittest.main()
