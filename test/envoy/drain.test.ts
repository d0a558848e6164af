// Two agents behind one Envoy that refuses what it cannot ask about, restarted in turn under steady load:
// nobody outside notices.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { AT, endpointOf } from "../kit/bootstrap.ts";
import { startEnvoy, startService } from "../kit/envoy.ts";
import { eventually } from "../kit/eventually.ts";
import { http2 } from "../kit/http-client.ts";
import { standaloneProcess } from "../kit/standalone.ts";
import { POLICIES } from "./policies.ts";

/** Each has an address of its own, so that nothing takes its port while it is away. */
const HOSTS = ["127.0.0.2", "127.0.0.3"];

test("agents restarted in turn under load leave no request without a decision", async (t) => {
  const start = (address: string) =>
    standaloneProcess(t, {
      policies: POLICIES,
      // How long a drain accepts is what it is by default.
      env: {
        SVC_AGENT_SERVER_LISTENER_ADDR: address,
        SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "2s",
      },
    });
  const agents = await Promise.all(HOSTS.map((host) => start(`${host}:0`)));
  const envoy = await startEnvoy(t, {
    agent: agents[0]?.address ?? "",
    service: await startService(t),
    edit(bootstrap) {
      bootstrap.set(
        AT.agents,
        agents.map(({ address }) => endpointOf(address)),
      );
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "10s");
    },
  });
  const ask = http2(t, envoy.url);
  const seen = new Map<number, number>();
  const load = { on: true };
  t.after(() => {
    load.on = false;
  });
  const lanes = Array.from({ length: 16 }, async (_, lane) => {
    for (let count = 0; load.on; count++) {
      const path = count % 4 === 0 ? "/busy" : "/";
      const { status } = await ask({ path, headers: { "x-user": `user-${lane}` } });
      seen.set(status, (seen.get(status) ?? 0) + 1);
      // A steady stream; the machine must have time to start an agent beside it.
      await sleep(8);
    }
  });

  for (const { address, child } of agents) {
    const health = async () => (await envoy.agents()).get(address);
    assert.equal(await health(), true, `${address} is asked`);
    child.kill("SIGTERM");
    assert.equal(await child.ended, 0, child.out() + child.err());
    assert.equal(await health(), false, `${address} was left before it went`);
    const again = await start(address);
    assert.equal(again.address, address);
    await eventually(`${address} is asked again`, async () => (await health()) === true);
  }
  load.on = false;
  await Promise.all(lanes);

  assert.deepEqual([...seen.keys()].sort(), [200, 503], JSON.stringify([...seen]));
  assert.ok((seen.get(200) ?? 0) > 1_000, JSON.stringify([...seen]));
  assert.equal(await envoy.stat("http.ingress.ext_authz.sluice.error"), 0);
  const denied = await envoy.stat("http.ingress.ext_authz.sluice.denied");
  assert.equal(denied, seen.get(503));
});
