"""Runs an image as a workload until the end of the input: run.py IMAGE NAME"""

import asyncio
import sys

import mcpm


async def main() -> None:
    async with mcpm.Workload.start(sys.argv[1], name=sys.argv[2]) as workload:
        print(workload.name, workload.url)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
