"""Runs an image as a workload until the end of the input: run.py IMAGE NAME"""

import asyncio
import sys
from datetime import timedelta

import mcpm


async def main() -> None:
    workload = await mcpm.Workload.start(mcpm.WorkloadOptions(server=sys.argv[1], name=sys.argv[2]))
    print(workload.name(), workload.url())
    await asyncio.to_thread(sys.stdin.read)
    await workload.stop(timedelta(seconds=10))


asyncio.run(main())
