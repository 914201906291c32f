"""uv.py FOLDER: installs uv from its package, for a Python without pip, and prints its path.

It takes the newest release for this machine from the index that is configured for pip, with the hash that the index names.
"""

import base64
import hashlib
import html.parser
import io
import os
import platform
import re
import sys
import urllib.parse
import urllib.request
import zipfile


class Links(html.parser.HTMLParser):
    """The links of a page of an index (PEP 503), without releases that were withdrawn."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "a" and attrs.get("href") and "data-yanked" not in attrs:
            self.found.append(attrs["href"])


def fetch(url, login):
    """Fetches a URL. The login of the index is sent to its host only."""
    request = urllib.request.Request(url, headers={"Accept": "text/html, */*"})
    if login and urllib.parse.urlsplit(url).netloc == login[0]:
        request.add_header("Authorization", "Basic " + base64.b64encode(login[1].encode()).decode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def main(folder):
    index = urllib.parse.urlsplit(os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple")
    login, _, host = index.netloc.rpartition("@")
    login = (host, urllib.parse.unquote(login)) if login else None
    page = index._replace(netloc=host, path=index.path.rstrip("/") + "/uv/").geturl()
    links = Links()
    links.feed(fetch(page, login).decode())
    # These programs are static, so they run with any C library.
    wheel = re.compile(r"uv-(\d+(?:\.\d+)*)-py3-none-\S*musllinux_1_1_%s\.whl$" % re.escape(platform.machine()))
    wheels = []
    for link in links.found:
        url, _, fragment = urllib.parse.urljoin(page, link).partition("#")
        match = wheel.search(urllib.parse.unquote(url))
        if match and fragment.startswith("sha256="):
            wheels.append(([int(number) for number in match[1].split(".")], url, fragment[len("sha256=") :]))
    if not wheels:
        sys.exit("the package index has no uv for this machine")
    _, url, digest = max(wheels)
    content = fetch(url, login)
    if hashlib.sha256(content).hexdigest() != digest:
        sys.exit("the downloaded uv has another hash than the package index lists")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
        program = archive.read(name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "uv")
    with open(path, "wb") as file:
        file.write(program)
    os.chmod(path, 0o755)
    print(path)


main(sys.argv[1])
