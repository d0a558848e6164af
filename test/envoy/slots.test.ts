// Every bootstrap and access log that Sluice ships tells the agent of ended requests so soon that a limit on requests in
// flight never refuses a client that sends one request after the other.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { slotsPolicy } from "../kit/attack/slots.ts";
import { http1 } from "../kit/clients/http.ts";
import { folderOf } from "../kit/folder.ts";
import { ACCESS_LOGS, AT, SHIPPED } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";

const LIMIT = 3;
const REQUESTS = 25;

for (const bootstrap of SHIPPED) {
  for (const accessLog of ["its own access log", ...ACCESS_LOGS] as const) {
    test(`${bootstrap} with ${accessLog}: a client with one request at a time is never refused`, async (t) => {
      const start = (addr: string) =>
        standaloneProcess(t, {
          policies: { "slots.yaml": slotsPolicy("ingress", LIMIT) },
          env: { SVC_AGENT_SERVER_LISTENER_ADDR: addr },
        });
      const addresses = {
        "sidecar-unix.yaml": [`unix:${join(folderOf(t), "sluice.sock")}`],
        "two-agents.yaml": ["127.0.0.1:0", "127.0.0.1:0"],
      };
      const [agent, other] = await Promise.all(
        (bootstrap in addresses
          ? addresses[bootstrap as keyof typeof addresses]
          : ["127.0.0.1:0"]
        ).map(start),
      );
      const envoy = await startEnvoy(t, {
        bootstrap,
        agent: agent?.address ?? "",
        ...(other === undefined ? {} : { otherAgent: other.address }),
        service: await startService(t),
        edit(of) {
          if (accessLog !== "its own access log") of.accessLogOf(accessLog);
          // A machine that is busy with other tests must not look like an agent that is away.
          of.set([...AT.extAuthz, "grpc_service", "timeout"], "5s");
        },
      });
      const ask = http1(t, envoy.url);
      const statuses: number[] = [];
      while (statuses.length < REQUESTS) statuses.push((await ask()).status);
      assert.deepEqual(statuses, Array(REQUESTS).fill(200));
    });
  }
}
