"""Uses proxies in front of the HTTP server at the given URI."""

import asyncio
import datetime
import sys

import mcpm
from client import refused, refused_call, use

TARGET = sys.argv[1]


async def main() -> None:
    proxy = await mcpm.Proxy.start("everything", TARGET)
    url = proxy.url
    assert url is not None
    assert (proxy.name, proxy.status) == ("everything", mcpm.Phase.RUNNING)
    await asyncio.to_thread(use, url)

    assert proxy.warnings == [] and await proxy.check() is None

    # An option that has no effect, and a target that is not there, are both told.
    nowhere = await mcpm.Proxy.start("nowhere", "http://127.0.0.1:1/mcp", oidc_audience="notes")
    assert "`oidc_audience` has no effect" in nowhere.warnings[0], nowhere.warnings
    await refused(mcpm.StartFailedError, nowhere.check(), show=False)
    await nowhere.stop()

    port = int(url.split(":")[2].split("/")[0])
    await refused(mcpm.PortTakenError, mcpm.Proxy.start("s", TARGET, port=port), show=False)
    await proxy.stop()
    assert proxy.status == mcpm.Phase.STOPPED and proxy.url == url
    try:
        await asyncio.to_thread(use, url)
        raise AssertionError("it still listens")
    except ConnectionRefusedError:
        pass
    await proxy.stop()

    await refused(mcpm.InvalidOptionError, mcpm.Proxy.start("s"))
    secret = mcpm.Proxy.start(
        "s", TARGET, remote_auth=True, remote_auth_bearer_token=mcpm.Secret("hidden")
    )
    await refused(mcpm.InvalidOptionError, secret)

    # Records of every kind of value cross over; bad ones are refused before anything is started.
    bad_address = mcpm.PublishSpec(host_ip="localhost", container_port=80, protocol=mcpm.Protocol.TCP)
    start = mcpm.Workload.start(
        "image",
        env={"A": "b"},
        publish=[bad_address],
        permission_profile="network",
        remote_auth_timeout=datetime.timedelta(seconds=30),
        transport="streamable-http",
    )
    await refused(mcpm.InvalidOptionError, start)
    print(mcpm.Header(name="A", value=mcpm.Secret("hidden")))

    # Why a call was refused.
    proxy = await mcpm.Proxy.start("everything", TARGET, tools=["!test_simple_text"])
    refusal = await asyncio.to_thread(refused_call, proxy.url, "test_simple_text")
    explained = proxy.explain(refusal)
    assert (explained.reason, explained.layer) == ("tools.not_listed", "tools"), explained
    refused_for = explained.refusal
    assert (refused_for.id, refused_for.server) == (refusal, "everything"), explained
    assert refused_for.rule == "!test_simple_text", explained
    assert refused_for.inputs == {"method": "tools/call", "tool": "test_simple_text"}, explained
    assert "remove `!test_simple_text` from" in refused_for.fix and refused_for.time.endswith("Z"), explained
    assert mcpm.explain("origin.not_allowed").refusal is None
    # It is kept beyond the proxy too.
    assert mcpm.explain(refusal).reason == "tools.not_listed"
    await proxy.stop()

    # A shutdown ends what runs, and a start begins anew.
    proxy = await mcpm.Proxy.start("everything", TARGET)
    await asyncio.to_thread(mcpm.shutdown)
    assert proxy.status == mcpm.Phase.STOPPED
    global left
    left = await mcpm.Proxy.start("everything", TARGET)
    await asyncio.to_thread(use, left.url)


asyncio.run(main())
print("done")
