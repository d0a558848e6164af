// Resources beside the circuit, as configuration for the agents of their groups.

import assert from "node:assert/strict";
import { test } from "node:test";
import { compiled, lines } from "../kit.ts";

const meters = (collector: string, beside = ""): string =>
  `resources: {telemetry_collectors: [{${collector}infra_meters: {m: {agent_group: of-meter}}}]${beside}}`;

test("a collector's agent group replaces that of its meters, also in the message", () => {
  const [config, ...more] = compiled(meters("agent_group: of-collector, ")).configs;
  assert.deepEqual(more, []);
  assert.deepEqual([config?.kind, config?.name], ["infra_meter", "m"]);
  assert.deepEqual(config?.agentGroups, ["of-collector"]);
  assert.equal(config?.message["agent_group"], "of-collector");
});

test("a collector without an agent group has the default one, as have its meters", () => {
  assert.deepEqual(compiled(meters("")).configs[0]?.agentGroups, ["default"]);
});

test("an infra meter outside collectors keeps its agent group", () => {
  const both = compiled(meters("", ", infra_meters: {n: {agent_group: own}}")).configs;
  assert.deepEqual(
    both.map(({ name, agentGroups }) => [name, ...agentGroups]),
    [
      ["n", "own"],
      ["m", "default"],
    ],
  );
  const [line = ""] = lines(meters("", ", infra_meters: {m: {}}"));
  assert.match(
    line,
    /telemetry_collectors\[0\]\.infra_meters\.m: wanted each infra meter name once/,
  );
});
