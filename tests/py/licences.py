#!/usr/bin/env python3
"""Checks that every dependency has a permissive licence.

    cargo metadata --format-version 1 --all-features | licences.py

One alternative of a package's SPDX expression must consist of allowed licences only.
"""

import json
import re
import sys

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

TOKEN = re.compile(r"\(|\)|\bOR\b|\bAND\b|/|[A-Za-z0-9.+-]+(?: WITH [A-Za-z0-9.+-]+)?")


def is_allowed(expression):
    """Evaluates an SPDX expression: AND binds tighter than OR; `/` is an old way to write OR."""
    tokens = TOKEN.findall(expression)

    def either():
        value = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            value = both() or value
        return value

    def both():
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token in ALLOWED
        value = either()
        assert tokens.pop(0) == ")", expression
        return value

    value = either()
    assert not tokens, expression
    return value


def main():
    assert is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0") and is_allowed("Unlicense/MIT")
    assert not is_allowed("MIT AND GPL-3.0-only") and not is_allowed("LicenseRef-NVIDIA")
    packages = json.load(sys.stdin)["packages"]
    bad = [p for p in packages if not is_allowed(p["license"] or "none")]
    for package in bad:
        print(f"{package['name']} {package['version']}: {package['license'] or 'no licence'}")
    print(f"{len(packages)} packages, {len(bad)} without a permissive licence")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
