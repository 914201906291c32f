"""report.py NAME: says which version of a distribution is installed, and which commands it has.

With --project, the distribution is that of /mcpm/src. With --script FILE, the command is the one that starts the script.
"""

import json
import os
import sys
from importlib.metadata import distribution, distributions


def report(**found):
    """Writes what was found."""
    print(os.environ["MCPM_REPORT"] + " " + json.dumps(found))
    sys.exit()


def is_project(candidate):
    """Tells whether a distribution was installed from the folder of the project."""
    origin = json.loads(candidate.read_text("direct_url.json") or "{}")
    return origin.get("url", "").rstrip("/") == "file:///mcpm/src"


if sys.argv[1] == "--script":
    server = "/app/bin/server"
    report(version="(local)", commands=[{"name": "server", "path": server, "file": server}])
if sys.argv[1] == "--project":
    found = next(filter(is_project, distributions()))
else:
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
report(name=found.metadata["Name"], version=found.version, commands=commands)
