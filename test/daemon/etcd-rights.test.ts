// The users of docs/etcd.md: with them everything works, and an agent can change neither rules nor who leads.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { leads, listening, startSluice } from "../kit/servers/sluice.ts";
import { passes } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";

const PAGE = readFileSync(join(import.meta.dirname, "../../docs/etcd.md"), "utf8");
const COMMANDS = [...PAGE.matchAll(/^etcdctl (.*)$/gm)].map(([, args = ""]) => args.split(" "));

const CLOSED = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 60s }
`;

test("with the users of docs/etcd.md, rules reach an agent that can change neither rules nor who leads", async (t) => {
  assert.ok(COMMANDS.length > 10);
  const etcd = await startEtcd(t);
  for (const args of COMMANDS) await etcd.ctl(...args);
  const folder = folderOf(t, { "a.yaml": CLOSED });
  const agent = startSluice(t, "agent", etcd.endpoints, [], {
    ETCD_USERNAME: "agent",
    ETCD_PASSWORD: "choose-this",
    SERVICE_DISCOVERY_KUBERNETES_SOURCE: "controller",
  });
  const controller = startSluice(t, "controller", etcd.endpoints, ["--policies", folder], {
    ETCD_USERNAME: "controller",
    ETCD_PASSWORD: "choose-that",
  });
  await listening(agent);
  await leads(controller);
  await until("the rule is in force", async () => !(await passes(agent.address(), "shop")));
  const as = (user: string, ...args: readonly string[]) => etcd.ctl(`--user=${user}`, ...args);
  for (const written of ["peers", "secrets/aperture-agent"]) {
    const keys = ["get", "--prefix", `aperture/${written}/`, "--keys-only"];
    await until(`the agent has written to ${written}`, async () =>
      /./.test(await as("root:choose-another", ...keys)),
    );
  }
  for (const place of [
    "config/x",
    "decisions/x",
    "controller-election/x",
    "checkpoints/x",
    "discovery/x",
  ]) {
    const key = `aperture/${place}`;
    await assert.rejects(as("agent:choose-this", "put", key, "x"), /permission denied/, place);
    await assert.rejects(as("agent:choose-this", "del", key), /permission denied/, place);
  }
  assert.doesNotMatch(agent.printed() + controller.printed(), /"level":"(error|warn)".*denied/);
});
