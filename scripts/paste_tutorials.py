#!/usr/bin/env python3
"""Puts what the tutorials printed on a GPU into examples/README.md.

    scripts/paste_tutorials.py gpu-out/tutorials      # the folder that `scripts/gpu.sh tutorials` wrote

Each text NAME.txt of the folder goes between the marks of NAME. Others stay as they are, and those that never ran say so.
"""

import pathlib
import re
import sys

page = pathlib.Path(__file__).parent.parent / "examples/README.md"
folder = pathlib.Path(sys.argv[1])
text = page.read_text(encoding="utf-8")
pasted = 0
for file in sorted(folder.glob("tutorial_*.txt")):
    marks = f"<!-- {file.stem}: begin -->", f"<!-- {file.stem}: end -->"
    output = "\n".join(line.rstrip() for line in file.read_text(encoding="utf-8").strip().splitlines())
    between = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
    text, count = between.subn(lambda _: f"{marks[0]}\n```text\n{output}\n```\n{marks[1]}", text)
    if count != 1:
        sys.exit(f"{page} has {count} places for {file.stem}")
    pasted += 1
page.write_text(text, encoding="utf-8")
print(f"{pasted} outputs are in {page}")
sys.exit(0 if pasted else 1)
