// `sluice agent` with `etcd.snapshot_path` while etcd is away: real processes, a real etcd.

import assert from "node:assert/strict";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { listening, type SluiceChild, startSluice } from "../kit/servers/sluice.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";
import { refusesAll } from "./policies.ts";

const readiness = (agent: SluiceChild) =>
  call(agent.address(), "GET", "/v1/status/system/readiness");
const standsIn = async (agent: SluiceChild) => {
  const { body } = await call(agent.address(), "GET", "/metrics");
  return /^sluice_rules_from_snapshot (\d)$/m.exec(body)?.[1];
};

test("an agent that starts while etcd is away judges by the last rules it saw, and says so", async (t) => {
  const etcd = await startEtcd(t);
  const path = join(folderOf(t), "rules");
  const env = { ETCD_SNAPSHOT_PATH: path };
  const policies = folderOf(t, { "a.yaml": refusesAll("shop") });
  const controller = startSluice(t, "controller", etcd.endpoints, ["--policies", policies]);
  const first = startSluice(t, "agent", etcd.endpoints, [], env);
  await listening(controller, first);
  await until("the rule arrives", async () => !(await passes(first.address(), "shop")));
  assert.equal(await standsIn(first), "0");
  first.kill("SIGTERM");
  await first.ended;
  assert.ok(existsSync(path));
  assert.equal(statSync(path).mode & 0o777, 0o600);

  await etcd.members[0]?.kill();
  const second = startSluice(t, "agent", etcd.endpoints, [], env);
  await listening(second);
  await until("it is ready", async () => (await readiness(second)).status === 200);
  const { body } = await readiness(second);
  assert.match(body, /degraded: judging by the rules of \d{4}-.* in .*rules/);
  assert.equal(await standsIn(second), "1");
  assert.match(second.printed(), /the store does not answer: judging by the rules of/);
  assert.match(second.printed(), /the store cannot be used, and nothing has been read from it: /);
  assert.doesNotMatch(second.printed(), /what is known stays in force/);
  assert.equal(
    await passes(second.address(), "shop"),
    false,
    "numbers are in the snapshot as well",
  );
  assert.equal(await passes(second.address(), "bar"), true);

  await etcd.members[0]?.start();
  await until("the store counts again", async () => (await standsIn(second)) === "0");
  assert.doesNotMatch((await readiness(second)).body, /judging by the rules of/);
  assert.equal(await passes(second.address(), "shop"), false);
});

test("a damaged snapshot is reported, and the agent judges nothing before etcd answers", async (t) => {
  const etcd = await startEtcd(t);
  const folder = folderOf(t, { rules: "damaged" });
  await etcd.members[0]?.kill();
  const agent = startSluice(t, "agent", etcd.endpoints, [], {
    ETCD_SNAPSHOT_PATH: join(folder, "rules"),
  });
  await listening(agent);
  assert.match(agent.printed(), /there is no snapshot to judge by: .*rules: wanted/);
  assert.equal((await readiness(agent)).status, 503);
  const check = { control_point: "shop", request: { method: "GET", path: "/" } };
  const { status } = await call(agent.address(), "POST", "/v1/flowcontrol/checkhttp", check);
  assert.equal(status, 503);
});
