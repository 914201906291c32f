"""report.py NAME: says which version of a distribution is installed, and which commands it has."""

import json
import os
import sys
from importlib.metadata import distribution

found = distribution(sys.argv[1])
folder = os.path.join(sys.prefix, "bin")
installed = {os.path.realpath(found.locate_file(file)) for file in found.files or []}
names = {entry.name for entry in found.entry_points if entry.group == "console_scripts"}
names |= {os.path.basename(file) for file in installed if os.path.dirname(file) == os.path.realpath(folder)}
paths = {name: os.path.join(folder, name) for name in names}
commands = [
    {"name": name, "path": path, "file": os.path.realpath(path)}
    for name, path in sorted(paths.items())
    if os.access(path, os.X_OK)
]
print(os.environ["MCPM_REPORT"] + " " + json.dumps({"version": found.version, "commands": commands}))
