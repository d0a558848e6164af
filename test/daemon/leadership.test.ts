// Controllers that lead, stand by, and lose what they lead by, as processes of the operating system over a real etcd.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import {
  leads,
  listening,
  type SluiceChild,
  standsBy,
  startSluice,
  timesLed,
} from "../kit/servers/sluice.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { until } from "../kit/until.ts";
import { refusesAll } from "./policies.ts";

const closed = (controlPoint: string) => refusesAll(controlPoint, "0.1s");

const LEASE_MS = 2_000;

const get = (of: SluiceChild, path: string) => call(of.address(), "GET", path);
const readiness = (of: SluiceChild) => get(of, "/v1/status/system/readiness");
const refuses = async (agent: SluiceChild, point: string) =>
  !(await passes(agent.address(), point));
const upsert = (of: SluiceChild, name: string, text: string) =>
  call(of.address(), "POST", `/v1/policies/${name}`, { policy_string: text });

/** Writes a policy. Asks again when a lease that a busy machine did not renew in time has just ended. */
const written = (of: SluiceChild, name: string, text: string) =>
  until(`the policy ${name} is written`, async () => {
    const { status, body } = await upsert(of, name, text);
    if (status !== 200)
      assert.match(body, /no longer leads|stands by|no controller is known to lead/);
    return status === 200;
  });

/** An etcd, an agent, and a controller that leads with one policy of a file, which refuses at `shop`. */
async function house(t: TestContext) {
  const etcd = await startEtcd(t);
  const { endpoints } = etcd;
  const folder = folderOf(t, { "a.yaml": closed("shop") });
  const args = ["--policies", folder];
  const agent = startSluice(t, "agent", endpoints);
  const controller = startSluice(t, "controller", endpoints, args);
  await listening(agent);
  await leads(controller);
  await until("the rule is there", () => refuses(agent, "shop"));
  const another = () => startSluice(t, "controller", endpoints, args);
  return { etcd, member: etcd.members[0] ?? assert.fail(), folder, agent, controller, another };
}

/** Checks at a control point all the time; the returned function ends that and returns how many passed. */
function checking(agent: SluiceChild, point: string): () => Promise<number> {
  let ended = false;
  let passed = 0;
  const all = (async () => {
    while (!ended) if (await passes(agent.address(), point)) passed += 1;
    return passed;
  })();
  return () => {
    ended = true;
    return all;
  };
}

const MISTAKES = /"level":"(error|fatal)"|cannot be used|Cancelled/;

test("a controller that stands by listens, is ready, and says who leads", async (t) => {
  const { controller, another } = await house(t);
  const second = another();
  await listening(second);
  await standsBy(second);
  for (const each of [controller, second]) {
    assert.equal((await readiness(each)).status, 200);
    assert.equal((await get(each, "/v1/status/system/liveness")).status, 200);
  }
  const leading = JSON.parse((await get(controller, "/v1/status/system/leadership")).body);
  const [, name] = /^leads as (\S+) since \d{4}-/.exec(leading.status.message.value) ?? [];
  assert.ok(name !== undefined);
  const standing = JSON.parse((await get(second, "/v1/status/system/leadership")).body);
  assert.match(standing.status.message.value, /^stands by as /);
  assert.ok(standing.status.message.value.includes(`${name} leads, seen since 2`));
  assert.ok(standing.status.message.value.endsWith(`, at ${controller.address()}`));
  assert.ok(second.printed().includes(name), "the log names it");
  const metricsOf = async (of: SluiceChild) =>
    Object.fromEntries(
      [...(await get(of, "/metrics")).body.matchAll(/^(sluice_leader\S*) (\S+)$/gm)].map(
        ([, metric, value]) => [metric, Number(value)],
      ),
    );
  const now = Date.now() / 1_000;
  const { sluice_leader_since_seconds: since = 0, ...first } = await metricsOf(controller);
  assert.deepEqual(first, { sluice_leader: 1 });
  assert.ok(since > now - 600 && since <= now);
  assert.deepEqual(await metricsOf(second), { sluice_leader: 0, sluice_leader_since_seconds: 0 });
  for (const refused of [
    await get(second, "/v1/policies"),
    await upsert(second, "x", closed("x")),
  ]) {
    assert.equal(refused.status, 503);
    const { message } = JSON.parse(refused.body);
    assert.ok(message.endsWith(`${name} leads, at ${controller.address()}`), message);
  }
  assert.equal((await get(controller, "/v1/policies")).status, 200);
});

test("nothing is reported as wrong while processes start, change and end", async (t) => {
  const { controller, another, agent } = await house(t);
  const second = another();
  await standsBy(second);
  controller.kill("SIGTERM");
  assert.equal(await controller.ended, 0);
  await leads(second);
  for (const each of [second, agent]) {
    each.kill("SIGTERM");
    assert.equal(await each.ended, 0);
  }
  for (const each of [controller, second, agent]) assert.doesNotMatch(each.printed(), MISTAKES);
});

for (const how of ["killed", "frozen"] as const) {
  test(`a sole controller whose etcd is ${how} for three leases leads again without a restart`, async (t) => {
    const { member, folder, agent, controller } = await house(t);
    const stopChecking = checking(agent, "shop");
    await (how === "killed" ? member.kill() : member.freeze());
    await controller.until("its lease is over", () =>
      controller.printed().includes("this controller no longer leads"),
    );
    writeFileSync(join(folder, "b.yaml"), closed("bar"));
    await sleep(3 * LEASE_MS);
    const { status, body } = await readiness(controller);
    assert.equal(status, 200, body);
    assert.match(body, /degraded/);
    assert.match((await get(controller, "/metrics")).body, /^sluice_leader 0$/m);
    const refused = await upsert(controller, "x", closed("x"));
    assert.equal(refused.status, 503);
    if (how === "killed") await member.start();
    else member.thaw();
    await leads(controller, 2);
    await until("what was written meanwhile is in force", () => refuses(agent, "bar"));
    assert.equal(await stopChecking(), 0);
    assert.equal(controller.process.exitCode, null);
    await until("nothing is degraded", async () => {
      const replies = [await readiness(controller), await readiness(agent)];
      return replies.every((reply) => !reply.body.includes("degraded"));
    });
  });
}

test("a change is refused at once while the store is known to be away, although this controller still leads", async (t) => {
  const { member, controller } = await house(t);
  await member.kill();
  await until("the store is known to be away", async () =>
    (await readiness(controller)).body.includes("degraded: etcd at "),
  );
  const { status, body } = await upsert(controller, "x", closed("x"));
  assert.equal(status, 503);
  assert.match(body, /the store cannot be used at present|stands by/);
});

test("while the store is away, neither a former leader nor one that stood by names a leader", async (t) => {
  const { member, controller, another } = await house(t);
  const second = another();
  await standsBy(second);
  await member.kill();
  await controller.until("its lease is over", () =>
    controller.printed().includes("this controller no longer leads"),
  );
  for (const each of [controller, second]) {
    await until("the store is known to be away", async () =>
      (await readiness(each)).body.includes("degraded: etcd at "),
    );
    for (const path of ["/v1/policies", "/v1/policies/a", "/v1/decisions/load_scheduler"]) {
      const { status, body } = await get(each, path);
      assert.equal(status, 503);
      const wanted = "the store cannot be used at present, so no controller is known to lead";
      assert.ok(JSON.parse(body).message.startsWith(wanted), body);
    }
    const { status, body } = await upsert(each, "x", closed("x"));
    assert.equal(status, 503);
    assert.match(body, /no controller is known to lead/);
  }
});

test("processes end by themselves while etcd is away", async (t) => {
  const { member, agent, controller } = await house(t);
  await member.kill();
  for (const each of [controller, agent]) {
    await until("the store is known to be away", async () =>
      (await readiness(each)).body.includes("degraded: etcd at "),
    );
    each.kill("SIGTERM");
    assert.equal(await each.ended, 0, "the drain was not cut");
  }
});

test("a store that comes back empty is written again, policies of the API too, and no check passes meanwhile", async (t) => {
  const { etcd, member, agent, controller, another } = await house(t);
  await written(controller, "pub", closed("pub"));
  await until("the rule of the API is there", () => refuses(agent, "pub"));
  const second = another();
  await standsBy(second);
  const stops = ["shop", "pub"].map((point) => checking(agent, point));
  await member.kill();
  member.wipe();
  await member.start();
  const stored = () => etcd.ctl("get", "--prefix", "aperture/config/", "--keys-only");
  await until("everything is in the store again", async () => {
    const keys = await stored();
    return ["api/policies/pub", "policies/pub", "policies/a", "complete"].every((key) =>
      keys.includes(`aperture/config/${key}`),
    );
  });
  await until("the agent's rules are those of the store", async () =>
    (await get(agent, "/metrics")).body.includes("\nsluice_rules_kept 0\n"),
  );
  for (const stop of stops) assert.equal(await stop(), 0);
  assert.equal(await refuses(agent, "pub"), true);
  const leader = [controller, second].find((each) =>
    /wrote policies and dynamic/.test(each.printed()),
  );
  assert.ok(leader !== undefined);
  const { body } = await get(leader, "/v1/policies/pub");
  assert.equal(JSON.parse(body).status, "VALID");
});

test("rules, numbers and documents that somebody deletes from the store are written again", async (t) => {
  const { etcd, agent, controller } = await house(t);
  await written(controller, "pub", closed("pub"));
  await until("the rule of the API is there", () => refuses(agent, "pub"));
  await until("the rule of the file is there", () => refuses(agent, "shop"));
  const stopChecking = checking(agent, "shop");
  const stored = async (prefix: string) =>
    (await etcd.ctl("get", "--prefix", prefix, "--keys-only")).split("\n").filter(Boolean);
  for (const tree of ["config", "decisions"]) {
    const keys = await stored(`aperture/${tree}/rate_limiter/`);
    assert.equal(keys.length, 2);
    await etcd.ctl("del", keys[0] ?? "");
    await until("the key is there again", async () =>
      (await stored(`aperture/${tree}/rate_limiter/`)).includes(keys[0] ?? ""),
    );
  }
  assert.match(controller.printed(), /somebody deleted configurations or decisions/);
  await etcd.ctl("del", "--prefix", "aperture/decisions/");
  await until(
    "the numbers are there again",
    async () => (await stored("aperture/decisions/")).length === 2,
  );
  let led = timesLed(controller);
  await etcd.ctl("del", "--prefix", "aperture/config/");
  await leads(controller, led + 1);
  assert.ok((await stored("aperture/config/api/")).length > 0, "the documents of the API");
  assert.equal(await refuses(agent, "pub"), true);
  assert.match(
    await etcd.ctl("get", "--prefix", "aperture/config/rate_limiter/", "--keys-only"),
    /./,
  );
  led = timesLed(controller);
  await etcd.ctl("del", "--prefix", "aperture/");
  await leads(controller, led + 1);
  await until("the agent's rules are those of the store", async () =>
    (await get(agent, "/metrics")).body.includes("\nsluice_rules_kept 0\n"),
  );
  assert.equal(await stopChecking(), 0);
});

test("documents that cannot be used end the start, and later keep a controller from leading", async (t) => {
  const { etcd, folder, controller, another } = await house(t);
  const bad = ["--policies", folderOf(t, { "a.yaml": "circuit: 1" })];
  const second = another();
  await standsBy(second);
  writeFileSync(join(folder, "a.yaml"), "circuit: 1");
  controller.kill("SIGTERM");
  await controller.ended;
  await second.until("it says why", () =>
    second.printed().includes("cannot lead, and tries again"),
  );
  writeFileSync(join(folder, "a.yaml"), closed("bar"));
  await leads(second);
  second.kill("SIGTERM");
  await second.ended;
  const third = startSluice(t, "controller", etcd.endpoints, bad);
  assert.equal(await third.ended, 64);
});
