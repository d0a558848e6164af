// A controller with the wrong directory of policies that takes over from the right one, over a real etcd.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { leads, listening, standsBy, startSluice } from "../kit/servers/sluice.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { scraped } from "../kit/sluice/scrape.ts";
import { until } from "../kit/until.ts";
import { refusesAll } from "./policies.ts";

test("limits stay when a controller without policies takes over, until a person confirms that they are to go", async (t) => {
  const { endpoints } = await startEtcd(t);
  const right = folderOf(t, { "a.yaml": refusesAll("shop"), "b.yaml": refusesAll("bar") });
  const wrong = folderOf(t);
  const agent = startSluice(t, "agent", endpoints);
  const first = startSluice(t, "controller", endpoints, ["--policies", right]);
  await listening(agent);
  await leads(first);
  const refuses = async (point: string) => !(await passes(agent.address(), point));
  for (const point of ["shop", "bar"]) await until("the rule is there", () => refuses(point));
  const second = startSluice(t, "controller", endpoints, ["--policies", wrong]);
  await standsBy(second);
  first.kill("SIGKILL");
  await first.ended;
  await leads(second);
  assert.match(
    second.printed(),
    /"level":"error".*2 of 2 policies in force .* stay in force: a; b;/,
  );
  assert.match(await scraped(second.address()), /^sluice_policies{state="kept"} 2$/m);
  const status = "/v1/status/system/policies/system/removal_guard";
  const { status: code, body } = await call(second.address(), "GET", status);
  assert.equal(code, 503);
  assert.match(body, /no source of this controller has: a; b; .*sluice policy delete/);
  for (const point of ["shop", "bar"]) assert.equal(await refuses(point), true);

  assert.equal((await call(second.address(), "DELETE", "/v1/policies/a")).status, 200);
  await until("the removed limit goes", () => passes(agent.address(), "shop"));
  assert.equal(await refuses("bar"), true);
  const env = { POLICIES_REMOVAL_GUARD: "1" };
  const third = startSluice(t, "controller", endpoints, ["--policies", wrong], env);
  await standsBy(third);
  second.kill();
  assert.equal(await second.ended, 0);
  await leads(third);
  await until("the other limit goes", () => passes(agent.address(), "bar"));
  assert.doesNotMatch(third.printed(), /removal_guard/);
});
