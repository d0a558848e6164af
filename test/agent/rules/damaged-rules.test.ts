// An agent beside rules of another controller that it cannot use.

import assert from "node:assert/strict";
import { test } from "node:test";
import { memoryStore } from "#store/memory.ts";
import { call, passes } from "../../kit/sluice/check.ts";
import { counted } from "../../kit/sluice/scrape.ts";
import { until } from "../../kit/until.ts";
import { agentOn, closed, publish } from "../setup.ts";

test("an unusable value of another controller is reported, and the other rules work", async (t) => {
  const { address, lines, store, health } = await agentOn(t);
  const stored = closed();
  stored.set(
    "/config/sampler/agent_group-default-policy-q-component_id-root.0",
    new Uint8Array([255]),
  );
  await publish(store, stored);
  await until("the good rule is in force", async () => !(await passes(address, "shop")));
  assert.ok(lines.some(({ level, message }) => level === "error" && /policy-q/.test(message)));
  const ready = await call(address, "GET", "/v1/status/system/readiness");
  assert.equal(ready.status, 200, "the rules that work go on being used");
  assert.match(ready.body, /degraded: rules refused: [^"]*policy-q/);
  assert.equal(health.degraded.get("rules"), true);
});

const GARBAGE = new Uint8Array([255]);
const refusedRules = (address: string) => counted(address, "sluice_rules_refused", "in_force");
const readiness = (address: string) => call(address, "GET", "/v1/status/system/readiness");

/** The store's content under the keys of `closed`, with other values for those of one tree. */
const damaged = (tree: "config" | "decisions") =>
  new Map(
    [...closed()].map(([key, value]) => [key, key.startsWith(`/${tree}/`) ? GARBAGE : value]),
  );

for (const tree of ["config", "decisions"] as const) {
  test(`an agent that starts beside ${tree} that it cannot read is not ready until they are written again`, async (t) => {
    const store = memoryStore();
    await publish(store, damaged(tree));
    const { address, lines, health } = await agentOn(t, {}, { store });
    const refused = lines.filter(({ level }) => level === "error");
    assert.equal(refused.length, 1);
    assert.match(
      refused[0]?.message ?? "",
      /^rule refused, nothing is in force in its place, and the agent is not ready: .*policy-p/,
    );
    const before = await readiness(address);
    assert.equal(before.status, 503);
    assert.match(
      before.body,
      /not ready yet: rules refused: [^"]*policy-p[^"]*nothing in its place/,
    );
    assert.equal(health.degraded.get("rules"), true);
    assert.deepEqual(await refusedRules(address), { predecessor: 0, none: 1 });

    await publish(store, closed());
    await until("the agent is ready", async () => (await readiness(address)).status === 200);
    assert.equal(await passes(address, "shop"), false);
    assert.deepEqual(await refusedRules(address), { predecessor: 0, none: 0 });

    await publish(store, damaged(tree));
    await until(
      "the damage is seen",
      async () => (await refusedRules(address))["predecessor"] === 1,
    );
    assert.match(lines.at(-1)?.message ?? "", /^rule refused, its predecessor stays: /);
    assert.equal((await readiness(address)).status, 200, "the rule that it knew goes on");
    assert.equal(await passes(address, "shop"), false);
  });
}

test("an agent that is ready stays ready beside a new rule that it cannot read, and says that nothing is in its place", async (t) => {
  const store = memoryStore();
  const { address, lines } = await agentOn(t, {}, { store });
  await publish(store, damaged("config"));
  await until("the damage is seen", async () => (await refusedRules(address))["none"] === 1);
  assert.equal((await readiness(address)).status, 200);
  assert.ok(
    lines.some(({ message }) => /^rule refused, nothing is in force in its place: /.test(message)),
  );
});

test("a damaged rule of another group, whose name begins alike, does not concern an agent", async (t) => {
  const store = memoryStore();
  const key = "/config/sampler/agent_group-default-x-policy-q-component_id-root.0";
  await publish(store, new Map([[key, GARBAGE]]));
  const { address, lines } = await agentOn(t, {}, { store });
  assert.equal((await readiness(address)).status, 200);
  assert.deepEqual(
    lines.filter(({ level }) => level === "error"),
    [],
  );
});
