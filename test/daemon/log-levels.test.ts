// The levels of the log of real processes: who may change them while the process runs, and what the lines then tell.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startEtcd } from "../kit/etcd/cluster.ts";
import { folderOf } from "../kit/folder.ts";
import { leads, listening, type SluiceChild, startSluice } from "../kit/servers/sluice.ts";
import { call } from "../kit/sluice/check.ts";
import { standaloneProcess } from "../kit/sluice/standalone.ts";
import { refusesAll } from "./policies.ts";

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
  const unknown = await levels("PUT", `${LEVELS}/rules?level=debug&for=5m&by=ann`);
  assert.equal(unknown.status, 400);
  assert.equal(unknown.message, "wanted only level in the query, got for, by");
  const twice = await levels("PUT", `${LEVELS}/rules?level=debug&level=info`);
  assert.equal(twice.status, 400);
  assert.equal(twice.message, "wanted level once in the query, got it 2 times");
  assert.equal((await levels("DELETE", `${LEVELS}?level=debug`)).status, 400);
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

type Line = Readonly<Record<string, unknown>>;

/** The whole lines that a process has logged so far. */
function linesOf(text: string): readonly Line[] {
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));
}

/** The line, once there is one, that has this message and these fields. */
async function lineOf(of: SluiceChild, message: string, fields: Line): Promise<Line> {
  const wanted = Object.entries({ ...fields, message });
  const found = () =>
    linesOf(of.printed()).findLast((line) => wanted.every(([name, value]) => line[name] === value));
  await of.until(
    `it logs "${message}" with ${JSON.stringify(fields)}`,
    () => found() !== undefined,
  );
  return found() ?? assert.fail();
}

test("at debug a change of a policy can be followed from the controller's file to the agent's limiter", async (t) => {
  const { endpoints } = await startEtcd(t);
  const folder = folderOf(t, { "a.yaml": refusesAll("shop") });
  const debug = { LOG_LEVEL: "debug" };
  const agent = startSluice(t, "agent", endpoints, [], debug);
  const controller = startSluice(t, "controller", endpoints, ["--policies", folder], debug);
  await listening(agent);
  await leads(controller);
  const { candidate, key } = await lineOf(controller, "won the election", {});
  await lineOf(controller, "campaigning for the leadership", { candidate });
  assert.match(String(key), /^\/controller-election\/[0-9a-f]+$/);
  const first = { policy: "a", component_id: "root.0" };
  const before = await lineOf(agent, "numbers arrived", first);
  const another = refusesAll("shop").replace(
    "bucket_capacity: { constant_signal: { value: 0 } }",
    "bucket_capacity: { constant_signal: { value: 7 } }",
  );
  writeFileSync(join(folder, "a.yaml"), another);
  controller.kill("SIGHUP");
  const version = await lineOf(controller, "a version of the policy comes into force", {
    policy: "a",
    before: before["hash"],
  });
  const { hash } = version;
  assert.notEqual(hash, before["hash"]);
  const decision = await lineOf(controller, "a decision changed", { ...first, hash });
  assert.deepEqual(decision["before"], before["after"]);
  const numbers = await lineOf(agent, "numbers arrived", { ...first, hash });
  assert.deepEqual(
    [numbers["before"], numbers["after"]],
    [decision["before"], decision["after"]],
    "the agent received what the circuit decided",
  );
  const { revision } = numbers;
  const rules = await lineOf(agent, "rules arrived", { policy: "a", hash, revision });
  assert.deepEqual(rules["changed"], ["root.0"]);
  const reached = (line: Line) =>
    line["message"] === "the changes are in force" && Number(line["revision"]) >= Number(revision);
  await agent.until("the changes are in force", () => linesOf(agent.printed()).some(reached));
  const write = await lineOf(controller, "wrote to the store", { revision });
  const decided = "/decisions/rate_limiter/agent_group-default-policy-a-component_id-root.0";
  assert.ok(Array.isArray(write["keys"]) && write["keys"].includes(decided));
  controller.kill("SIGTERM");
  assert.equal(await controller.ended, 0);
  await lineOf(controller, "resigning", { candidate, key });
});

test("at info nothing is added, and then the lines of the one component whose level changes", async (t) => {
  const { child, address, policies } = await standaloneProcess(t, {
    policies: { "a.yaml": refusesAll("shop") },
  });
  const lines = () => linesOf(child.out() + child.err());
  const messages = lines().map(({ message }) => String(message).replace(/[0-9a-f]{32}|:\d+/g, "…"));
  assert.deepEqual(messages, [
    "no configuration directory; using defaults and environment",
    "no configuration directory; using defaults and environment",
    "policies from files in force: 1; new: a (…)",
    "listening on 127.0.0.1…",
  ]);
  assert.equal((await call(address, "PUT", `${LEVELS}/rules?level=debug`)).status, 200);
  writeFileSync(join(policies, "a.yaml"), refusesAll("till"));
  child.kill("SIGHUP");
  const added = () => lines().filter(({ level }) => level === "debug" || level === "trace");
  await child.until("the change is in force", () =>
    added().some(({ message }) => message === "the changes are in force"),
  );
  assert.deepEqual(new Set(added().map(({ component }) => component)), new Set(["rules"]));
  assert.equal((await call(address, "PUT", `${LEVELS}/policies?level=trace`)).status, 200);
  await child.until("ticks are told", () => added().some(({ message }) => message === "tick"));
});

test("the level of the etcd client is its own, whatever that of the process is", async (t) => {
  const { endpoints } = await startEtcd(t);
  const agent = startSluice(t, "agent", endpoints, [], {
    ETCD_LOG_LEVEL: "debug",
    // Reports of crashes have the last lines of the log, which they see first.
    CRASHREPORT_DSN: "http://key@127.0.0.1:9/1",
  });
  await listening(agent);
  await lineOf(agent, "called etcd", { level: "debug", component: "etcd" });
  const others = linesOf(agent.printed()).filter(({ component }) => component !== "etcd");
  assert.deepEqual(
    others.filter(({ level }) => level === "debug"),
    [],
  );
});
