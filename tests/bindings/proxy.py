"""Uses proxies in front of the HTTP server at the given URI."""

import asyncio
import datetime
import sys

import mcpm
from client import refused, refused_call, use

TARGET = sys.argv[1]


async def main() -> None:
    proxy = await mcpm.Proxy.start(mcpm.ProxyOptions(server_name="everything", target_uri=TARGET))
    url = proxy.url()
    assert (proxy.name(), proxy.status()) == ("everything", mcpm.Phase.RUNNING)
    await asyncio.to_thread(use, url)

    assert proxy.warnings() == [] and await proxy.check() is None

    # An option that has no effect, and a target that is not there, are both told.
    useless = mcpm.ProxyOptions(
        server_name="nowhere", target_uri="http://127.0.0.1:1/mcp", oidc_audience="notes"
    )
    nowhere = await mcpm.Proxy.start(useless)
    assert "`oidc_audience` has no effect" in nowhere.warnings()[0], nowhere.warnings()
    await refused(mcpm.McpmError.StartFailed, nowhere.check(), show=False)
    await nowhere.stop()

    taken = mcpm.ProxyOptions(server_name="s", target_uri=TARGET, port=int(url.split(":")[2].split("/")[0]))
    await refused(mcpm.McpmError.PortTaken, mcpm.Proxy.start(taken), show=False)
    await proxy.stop()
    assert proxy.status() == mcpm.Phase.STOPPED and proxy.url() == url
    try:
        await asyncio.to_thread(use, url)
        raise AssertionError("it still listens")
    except ConnectionRefusedError:
        pass
    await proxy.stop()

    await refused(mcpm.McpmError.InvalidOption, mcpm.Proxy.start(mcpm.ProxyOptions(server_name="s")))
    secret = mcpm.ProxyOptions(
        server_name="s", target_uri=TARGET, remote_auth=True, remote_auth_bearer_token=mcpm.Secret("hidden")
    )
    await refused(mcpm.McpmError.InvalidOption, mcpm.Proxy.start(secret))
    try:
        mcpm.Proxy()
    except ValueError as error:
        print(error)

    # Records of every kind of value cross over; bad ones are refused before anything is started.
    bad_address = mcpm.PublishSpec(host_ip="localhost", container_port=80, protocol=mcpm.Protocol.TCP)
    await refused(
        mcpm.McpmError.InvalidOption,
        mcpm.Workload.start(
            mcpm.WorkloadOptions(
                server="image",
                env=[mcpm.EnvVar(name="A", value="b")],
                publish=[bad_address],
                permission_profile=mcpm.PermissionProfile.NETWORK(),
                remote_auth_timeout=datetime.timedelta(seconds=30),
            )
        ),
    )
    print(mcpm.Header(name="A", value=mcpm.Secret("hidden")))

    # Why a call was refused.
    hiding = mcpm.ProxyOptions(server_name="everything", target_uri=TARGET, tools=["!test_simple_text"])
    proxy = await mcpm.Proxy.start(hiding)
    refusal = await asyncio.to_thread(refused_call, proxy.url(), "test_simple_text")
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
    proxy = await mcpm.Proxy.start(mcpm.ProxyOptions(server_name="everything", target_uri=TARGET))
    await asyncio.to_thread(mcpm.shutdown)
    assert proxy.status() == mcpm.Phase.STOPPED
    global left
    left = await mcpm.Proxy.start(mcpm.ProxyOptions(server_name="everything", target_uri=TARGET))
    await asyncio.to_thread(use, left.url())


asyncio.run(main())
print("done")
