// The levels of the log of real processes: who may change them while the process runs, and what the lines then tell.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call } from "../kit/sluice/check.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";

const LEVELS = "/v1/log/levels";

test("the level of one component changes by its route, and a mistake is answered with what was wanted", async (t) => {
  const { address } = await standaloneProcess(t, { policies: {} });
  const levels = async (method: string, path: string) => {
    const { status, body } = await call(address, method, path);
    const read = JSON.parse(body);
    return { status, levels: read.levels, message: read.message };
  };
  const start = (await levels("GET", LEVELS)).levels;
  assert.equal(start.rules, "info");
  const changed = await levels("PUT", `${LEVELS}/rules?level=debug`);
  assert.deepEqual([changed.status, changed.levels], [200, { ...start, rules: "debug" }]);
  assert.deepEqual((await levels("GET", LEVELS)).levels, changed.levels);
  const noLevel = await levels("PUT", `${LEVELS}/rules`);
  assert.equal(noLevel.status, 400);
  assert.match(noLevel.message, /^level: wanted one of trace .*, got none$/);
  const noComponent = await levels("PUT", `${LEVELS}/rool?level=debug`);
  assert.equal(noComponent.status, 404);
  assert.match(noComponent.message, /^wanted one of the components .* rules .*, got rool$/);
  assert.deepEqual((await levels("DELETE", `${LEVELS}/rules`)).levels, start);
  assert.equal((await levels("PUT", `${LEVELS}?level=warn`)).levels.rules, "warn");
  assert.deepEqual((await levels("DELETE", LEVELS)).levels, start);
});

test("levels are shown and changed only where administration is", async (t) => {
  const { address } = await standaloneProcess(t, {
    policies: {},
    env: { SVC_AGENT_SERVER_ADMINISTRATION_TOKEN: "secret-of-administration" },
  });
  for (const [method, path] of [
    ["GET", LEVELS],
    ["PUT", `${LEVELS}?level=debug`],
    ["DELETE", `${LEVELS}/rules`],
  ] as const)
    assert.equal((await call(address, method, path)).status, 401, `${method} ${path}`);
});
