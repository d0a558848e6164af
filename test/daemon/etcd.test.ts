// `sluice controller` and `sluice agent` as processes of the operating system over a real etcd.

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { enableUsers, startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { child } from "../kit/servers/child.ts";
import {
  leads,
  listening,
  type SluiceChild,
  standsBy,
  startSluice,
} from "../kit/servers/sluice.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";
import { refusesAll } from "./policies.ts";

const closed = (controlPoint: string) => refusesAll(controlPoint, "0.05s");

test("rules, decisions and edits reach two agents, and an etcd that is restarted takes nothing away", async (t) => {
  const etcd = await startEtcd(t, { version: "3.4" });
  const { endpoints } = etcd;
  const policies = folderOf(t, { "closed.yaml": closed("shop") });
  const agents = [startSluice(t, "agent", endpoints), startSluice(t, "agent", endpoints)];
  const controller = startSluice(t, "controller", endpoints, ["--policies", policies]);
  await listening(...agents);
  await leads(controller);
  const refusedBy = async (agent: SluiceChild, point: string) =>
    !(await passes(agent.address(), point));
  for (const agent of agents)
    await until("the agent refuses at shop", () => refusedBy(agent, "shop"));
  writeFileSync(join(policies, "second.yaml"), closed("bar"));
  for (const agent of agents) await until("the edit is visible", () => refusedBy(agent, "bar"));

  await etcd.members[0]?.kill();
  for (const agent of agents) {
    await until("the agent is degraded", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/status/system/readiness");
      return body.includes("degraded: etcd at ");
    });
    const { status } = await call(agent.address(), "GET", "/v1/status/system/readiness");
    assert.equal(status, 200, "what is known is in force");
    assert.equal(await refusedBy(agent, "shop"), true);
  }
  writeFileSync(join(policies, "third.yaml"), closed("pub"));
  // From here on every check at shop is counted: none may pass while the agents find their way back.
  let passed = 0;
  await Promise.all([
    etcd.members[0]?.start(),
    ...agents.map((agent) =>
      until("the edit made meanwhile is visible", async () => {
        if (await passes(agent.address(), "shop")) passed += 1;
        return refusedBy(agent, "pub");
      }),
    ),
  ]);
  assert.equal(passed, 0);
  for (const agent of agents) {
    // A request that was sent while etcd was away may be given up only now.
    await until("the agent is no longer degraded", async () => {
      const { body } = await call(agent.address(), "GET", "/v1/status/system/readiness");
      return !body.includes("degraded");
    });
  }
});

test("rules outlive their controller; the one that takes over removes what no policy wants", async (t) => {
  const { endpoints } = await startEtcd(t);
  const policies = folderOf(t, { "a.yaml": closed("shop"), "b.yaml": closed("bar") });
  const agent = startSluice(t, "agent", endpoints);
  const first = startSluice(t, "controller", endpoints, ["--policies", policies]);
  await listening(agent);
  await leads(first);
  await until("the agent refuses at bar", async () => !(await passes(agent.address(), "bar")));
  const second = startSluice(t, "controller", endpoints, ["--policies", policies]);
  await standsBy(second);
  first.kill("SIGKILL");
  await first.ended;
  rmSync(join(policies, "b.yaml"));
  assert.equal(await passes(agent.address(), "bar"), false, "the rule is still there");
  await leads(second);
  await until("the orphan is removed", () => passes(agent.address(), "bar"));
  assert.equal(await passes(agent.address(), "shop"), false, "the other rule was adopted");
  second.kill("SIGTERM");
  assert.equal(await second.ended, 0);
});

test("an etcd that comes back empty takes no rule from an agent, which says so until a controller has written", async (t) => {
  const etcd = await startEtcd(t);
  const { endpoints } = etcd;
  const policies = folderOf(t, { "a.yaml": closed("shop"), "b.yaml": closed("bar") });
  const agent = startSluice(t, "agent", endpoints);
  const first = startSluice(t, "controller", endpoints, ["--policies", policies]);
  await listening(agent);
  await leads(first);
  const refuses = async (point: string) => !(await passes(agent.address(), point));
  for (const point of ["shop", "bar"]) await until("the rule is there", () => refuses(point));
  first.kill("SIGKILL");
  const [member] = etcd.members;
  await member?.kill();
  member?.wipe();
  await member?.start();
  const get = (path: string) => call(agent.address(), "GET", path);
  const readiness = () => get("/v1/status/system/readiness");
  const lost = "the store lost 4 keys, which stay in force";
  await until("the agent says so", async () => (await readiness()).body.includes(lost));
  assert.equal((await readiness()).status, 200);
  assert.match((await get("/metrics")).body, /^sluice_rules_kept 4$/m);
  assert.match(agent.out() + agent.err(), /the store lost rules .* they stay in force/);
  for (const point of ["shop", "bar"]) assert.equal(await refuses(point), true);

  rmSync(join(policies, "b.yaml"));
  writeFileSync(join(policies, "c.yaml"), closed("pub"));
  startSluice(t, "controller", endpoints, ["--policies", policies]);
  await until("the new rule is there", () => refuses("pub"));
  await until("the removed one is gone", async () => !(await refuses("bar")));
  assert.equal(await refuses("shop"), true);
  assert.doesNotMatch((await readiness()).body, /degraded/);
});

test("a leader that was frozen and deposed stands by instead of writing", async (t) => {
  const etcd = await startEtcd(t);
  const { endpoints } = etcd;
  const policies = folderOf(t, { "a.yaml": closed("shop") });
  const first = startSluice(t, "controller", endpoints, ["--policies", policies]);
  await leads(first);
  const others = folderOf(t, { "a.yaml": closed("bar") });
  const second = startSluice(t, "controller", endpoints, ["--policies", others]);
  await standsBy(second);
  first.kill("SIGSTOP");
  await leads(second);
  const stored = () => etcd.ctl("get", "--prefix", "aperture/config/rate_limiter");
  const before = await stored();
  assert.match(before, /bar/);
  writeFileSync(join(policies, "a.yaml"), closed("shop-again"));
  first.kill("SIGCONT");
  await standsBy(first);
  assert.match(first.printed(), /this controller no longer leads/);
  assert.equal((await call(first.address(), "GET", "/v1/status/system/readiness")).status, 200);
  assert.equal(await stored(), before);
});

test("a user that etcd refuses ends agent and controller with the code of a wrong configuration", async (t) => {
  const etcd = await startEtcd(t);
  await enableUsers(etcd, { name: "ann", password: "secret" });
  const policies = folderOf(t, { "a.yaml": closed("shop") });
  const wrong = { ETCD_USERNAME: "ann", ETCD_PASSWORD: "hunter2" };
  for (const env of [wrong, {}]) {
    const both = [
      startSluice(t, "agent", etcd.endpoints, [], env),
      startSluice(t, "controller", etcd.endpoints, ["--policies", policies], env),
    ];
    for (const each of both) {
      assert.equal(await each.ended, 64, each.printed());
      assert.match(each.printed(), /etcd\.username and etcd\.password/);
      assert.doesNotMatch(each.printed(), /hunter2/);
    }
  }
});

test("an agent that starts while etcd is away says so, judges nothing, and begins when etcd is there", async (t) => {
  const etcd = await startEtcd(t);
  const { endpoints } = etcd;
  const policies = folderOf(t, { "a.yaml": closed("shop") });
  const controller = startSluice(t, "controller", endpoints, ["--policies", policies]);
  await leads(controller);
  await etcd.members[0]?.kill();
  const agent = startSluice(t, "agent", endpoints);
  await listening(agent);
  const readiness = () => call(agent.address(), "GET", "/v1/status/system/readiness");
  const before = await readiness();
  assert.equal(before.status, 503);
  assert.match(before.body, /etcd at 127\.0\.0\.1:\d+: /);
  const check = { control_point: "shop", request: { method: "GET", path: "/" } };
  const refused = await call(agent.address(), "POST", "/v1/flowcontrol/checkhttp", check);
  assert.equal(refused.status, 503);
  assert.match(refused.body, /has not received its rules yet/);
  await etcd.members[0]?.start();
  await until("the agent is ready", async () => (await readiness()).status === 200);
  assert.equal(await passes(agent.address(), "shop"), false);
});

test("a controller without directories takes policies over its API, and says that there is no other way", async (t) => {
  const { endpoints } = await startEtcd(t, { version: "3.5" });
  const controller = startSluice(t, "controller", endpoints);
  const agent = startSluice(t, "agent", endpoints);
  await listening(controller, agent);
  await leads(controller);
  assert.match(controller.printed(), /policies come over the API only/);
  const file = join(folderOf(t, { "closed.yaml": closed("shop") }), "closed.yaml");
  const command = ["src/cli/sluice.js", "policy", "apply", file, "--controller"];
  const apply = child(t, process.execPath, [...command, controller.address()]);
  assert.equal(await apply.ended, 0, apply.err());
  await until("the agent refuses", async () => !(await passes(agent.address(), "shop")));
});
