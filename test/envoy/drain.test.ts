// Two agents behind an Envoy that rejects requests when it gets no decision, restarted in turn under steady load:
// no client notices.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { http2 } from "../kit/clients/http.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";
import { POLICIES } from "./policies.ts";

/** Each agent has a host address of its own, so that no other process takes its port during a restart. */
const HOSTS = ["127.0.0.2", "127.0.0.3"];

test("every request gets a decision while agents are restarted in turn", async (t) => {
  const start = (address: string) =>
    standaloneProcess(t, {
      policies: POLICIES,
      // `server.drain.accept_for` keeps its default.
      env: {
        SVC_AGENT_SERVER_LISTENER_ADDR: address,
        SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "2s",
      },
    });
  const agents = await Promise.all(HOSTS.map((host) => start(`${host}:0`)));
  const envoy = await startEnvoy(t, {
    agent: agents[0]?.address ?? "",
    otherAgent: agents[1]?.address ?? "",
    service: await startService(t),
    edit(bootstrap) {
      bootstrap.set([...AT.extAuthz, "grpc_service", "timeout"], "10s");
      bootstrap.serviceSpeaksHttp1();
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
      // A steady pace that leaves the machine time to start an agent.
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
    await until(`${address} is asked again`, async () => (await health()) === true);
  }
  load.on = false;
  await Promise.all(lanes);

  assert.deepEqual([...seen.keys()].sort(), [200, 503], JSON.stringify([...seen]));
  assert.ok((seen.get(200) ?? 0) > 1_000, JSON.stringify([...seen]));
  assert.equal(await envoy.stat("http.ingress.ext_authz.sluice.error"), 0);
  const denied = await envoy.stat("http.ingress.ext_authz.sluice.denied");
  assert.equal(denied, seen.get(503));
});
