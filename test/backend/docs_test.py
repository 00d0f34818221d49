#!/usr/bin/env python3
"""Compiles the ```cpp blocks and parses the ```json blocks of a page.

docs_test.py COMPILER INCLUDE_DIR PAGE...: exit 1 if one does not, or if a page given has no block at all.
"""
import json
import pathlib
import re
import subprocess
import sys


def main():
    compiler, include, *pages = sys.argv[1:]
    failed = False
    for page in pages:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", pathlib.Path(page).read_text(), re.M | re.S)
        if not blocks:
            print(f"{page}: no code block found")
            failed = True
        for number, (language, text) in enumerate(blocks, 1):
            problem = ""
            if language == "json":
                try:
                    json.loads(text)
                except ValueError as error:
                    problem = str(error)
            elif language == "cpp":
                run = subprocess.run(
                    [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", include, "-x", "c++", "-"],
                    input=text, capture_output=True, text=True)
                problem = run.stderr if run.returncode else ""
            if problem:
                print(f"{page}: block {number} ({language}): {problem}")
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
