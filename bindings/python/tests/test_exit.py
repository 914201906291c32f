from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mcpm
from mcpm import sync
from support import EVERYTHING, SILENT, containers


@pytest.mark.parametrize(
    ("image", "mode", "left"),
    [
        (EVERYTHING, "running", ["exited"]),
        (EVERYTHING, "shutdown", ["exited"]),
        (SILENT, "starting", []),
        (SILENT, "interrupted", []),
        (EVERYTHING, "refused", []),
    ],
)
def test_exit_ends_what_runs(name: str, image: str, mode: str, left: list[str]) -> None:
    program = Path(__file__).with_name("exit_while_running.py")
    ran = subprocess.run([sys.executable, program, image, name, mode], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{mode}\n", "")
    assert containers(name) == left
    recorded = {info.name: info.status for info in sync.Workloads().list()}
    assert recorded == ({name: mcpm.WorkloadState.STOPPED} if left else {})
