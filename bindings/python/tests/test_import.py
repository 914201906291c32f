from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import mcpm


def run(program: str) -> str:
    """Runs a program in a new interpreter, and returns its output."""
    return subprocess.check_output([sys.executable, "-W", "error", "-c", program], text=True)


def test_import_loads_the_library_at_the_first_use() -> None:
    loaded = "print([name for name in ('asyncio', 'ctypes', 'mcpm._native.mcpm') if name in sys.modules])"
    assert run(f"import sys, mcpm; {loaded}; mcpm.version(); {loaded}").splitlines() == [
        "[]",
        "['asyncio', 'ctypes', 'mcpm._native.mcpm']",
    ]


@pytest.mark.parametrize(
    "program",
    [
        "import mcpm; print(sorted(name for name in mcpm.__all__ if getattr(mcpm, name)))",
        "import mcpm; print(sorted({*dir(mcpm)} & {*mcpm.__all__}))",
        "from mcpm import *; print(sorted(name for name in dir() if not name.startswith('_')))",
    ],
)
def test_every_public_name_resolves(program: str) -> None:
    assert run(program) == f"{sorted(mcpm.__all__)}\n"


def test_unknown_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="module 'mcpm' has no attribute 'Wrkload'"):
        _ = mcpm.Wrkload  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Wrkload'"):
        exec("from mcpm import Wrkload")


@pytest.mark.parametrize("value", [mcpm.Phase.RUNNING, mcpm.KeyValue(key="a", value="b")])
def test_values_are_unpickled_before_the_first_use(value: object) -> None:
    program = f"import pickle, mcpm; print(pickle.loads({pickle.dumps(value)!r}))"
    assert run(program) == f"{value}\n"


def test_threads_may_use_the_package_first_at_once() -> None:
    """Each thread uses a name of its own, so that they load the package together."""
    assert (
        run("""
import threading, mcpm
names = ["Workload", "Proxy", "Phase", "McpmError", "Secret", "version", "__all__", "explain"]
barrier, resolved = threading.Barrier(len(names)), []
def use(name):
    barrier.wait()
    resolved.append(getattr(mcpm, name) is not None)
threads = [threading.Thread(target=use, args=[name]) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(resolved == [True] * len(names))
""")
        == "True\n"
    )


def test_exit_handlers_of_the_program_run_before_the_shutdown() -> None:
    """The handler is registered before the first use, which loads the library."""
    program = """
import atexit, mcpm
atexit.register(lambda: print(proxy.status.name))
from mcpm import sync
proxy = sync.Proxy.start("nowhere", "http://127.0.0.1:1/mcp")
"""
    assert run(program) == "RUNNING\n"
