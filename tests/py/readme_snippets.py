#!/usr/bin/env python3
"""Runs the queries and the Python of a document, so that they are known to work.

    readme_snippets.py DOCUMENT.md FOLDER

FOLDER holds the datasets that they name. Blocks of `sql` go to DuckDB, and each query must give rows; blocks of `python`
are run as they are.
"""

import os
import re
import sys

import duckdb

BLOCK = re.compile(r"^```(sql|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main():
    readme, folder = sys.argv[1:]
    with open(readme, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    counts = {language: sum(1 for found, _ in blocks if found == language) for language in ("sql", "python")}
    assert blocks, f"{readme} has none"
    os.chdir(folder)
    for language, text in blocks:
        print(f"+ {language}: {text.strip().splitlines()[0]} …", flush=True)
        if language == "sql":
            for query in filter(str.strip, text.split(";")):
                result = duckdb.sql(query)
                print(result)
                assert len(result) > 0, f"no rows:\n{query}"
        else:
            exec(compile(text, readme, "exec"), {"__name__": "readme"})
    print(f"{readme}: {counts['sql']} blocks of SQL and {counts['python']} of Python ran")


if __name__ == "__main__":
    main()
