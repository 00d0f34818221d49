#!/usr/bin/env python3
"""Checks that includes between the layers of sdk/ follow docs/architecture.md, and lists files over 400 lines.

Exit status 1 for an include that the table below does not allow, or an #include of one of our headers that is not there.
"""

import os
import re
import sys

# Layer -> layers it may include. Keep in step with the table of docs/architecture.md and the USES of each CMakeLists.txt.
ALLOWED = {
    "base": [],
    "backend": [],
    "resource": ["base"],
    "cdi": ["base"],
    "kube": ["base"],
    "observe": ["kube", "base"],
    "records": ["resource", "base"],
    "loader": ["backend", "base"],
    "inventory": ["loader", "resource", "observe", "base"],
    "status": ["kube", "resource", "observe", "base"],
    "publisher": ["kube", "inventory", "loader", "resource", "observe", "base"],
    "claims": ["records", "loader", "resource", "observe", "base"],
    "kubelet": ["observe", "base"],
}
EVERYTHING = list(ALLOWED)
ALLOWED["driver"] = EVERYTHING
ALLOWED["testing"] = EVERYTHING + ["driver"]

LONG = 400


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    wrong, long_files, lines_per_layer = [], [], {}
    for folder, _, names in sorted(os.walk(os.path.join(root, "sdk"))):
        for name in sorted(names):
            if not name.endswith((".h", ".cc", ".c")):
                continue
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, root)
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            if len(lines) > LONG:
                long_files.append((len(lines), shown))
            match = re.match(r"sdk/(?:include/dra|src)/([a-z_]+)/", shown)
            if not match:
                continue
            layer = match.group(1)
            lines_per_layer[layer] = lines_per_layer.get(layer, 0) + len(lines)
            for number, line in enumerate(lines, 1):
                include = re.match(r'#include "(?:dra/)?([a-z_]+)/', line)
                if not include or include.group(1) == layer or include.group(1) not in ALLOWED:
                    continue
                if include.group(1) not in ALLOWED[layer]:
                    wrong.append(f"{shown}:{number}: {layer} must not include {include.group(1)}")
    # Nothing in backends/ or examples/ includes anything of the SDK but the backend's face.
    for top in ("backends", "examples", "templates"):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(names):
                if not name.endswith((".h", ".cc", ".c")):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    for number, line in enumerate(file, 1):
                        include = re.match(r'#include "dra/([a-z_]+)/', line)
                        if include and include.group(1) != "backend":
                            wrong.append(f"{os.path.relpath(path, root)}:{number}: only dra/backend/ may be included")
    for text in wrong:
        print(text)
    for count, path in sorted(long_files, reverse=True):
        print(f"over {LONG} lines: {count} {path}")
    print("lines per layer: " + ", ".join(f"{layer} {count}" for layer, count in sorted(lines_per_layer.items())))
    if not lines_per_layer:
        print("no sources found")
        return 1
    print(f"{len(wrong)} wrong includes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
