// A whole Sluice that other machines can reach: every route and method of administration needs the token, over JSON and
// over gRPC, and nothing else does. On loopback, curl works without one.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { CODES } from "#base/fault.ts";
import { loadStandalone } from "#standalone/standalone.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { curl } from "../../deploy/tools/install.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { folderOf } from "../kit/folder.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const run = promisify(execFile);
const TOKEN = "correct-horse-battery-staple";
const EMPTY = "circuit: { components: [] }";
const POLICIES = "/aperture.policy.language.v1.PolicyService";

/** Routes that need no credential; a route that is not listed is administration. */
const OPEN = [
  "GET /",
  "GET /healthz",
  "GET /metrics",
  "GET /v1/status/system/liveness",
  "GET /v1/status/system/readiness",
  "POST /v1/flowcontrol/checkhttp",
  "POST /v1/flowcontrol/check",
  "POST /v1/flowcontrol/flowend",
  "POST /v1/logs",
  "POST /v1/traces",
];

test("every route that is not listed as open needs the token", async (t) => {
  const { port } = await standalone(t, {
    policies: {},
    env: {
      SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0",
      SVC_AGENT_SERVER_ADMINISTRATION_TOKEN: TOKEN,
    },
  });
  const address = port.address.replace("0.0.0.0", "127.0.0.1");
  const page = await (await fetch(`http://${address}/`)).text();
  const routes = [...page.matchAll(/^ {2}(GET|POST|PUT|PATCH|DELETE) +(\S+)/gm)];
  assert.ok(routes.length > 25, page);
  const seen: string[] = [];
  for (const [, method = "", pattern = ""] of routes) {
    const path = pattern.replaceAll(/\{[^}]*\}/g, "x");
    const { status } = await fetch(`http://${address}${path}`, {
      method,
      ...(method !== "GET" && method !== "DELETE" && { body: "{}" }),
      headers: { "content-type": "application/json" },
    });
    if (status !== 401) seen.push(`${method} ${pattern}`);
  }
  assert.deepEqual(seen.sort(), OPEN.filter((route) => route !== "GET /").sort());
});

test("the policy service has the same rights over gRPC as over JSON", async (t) => {
  const { port } = await standalone(t, {
    policies: {},
    env: {
      SVC_AGENT_SERVER_LISTENER_ADDR: "0.0.0.0:0",
      SVC_AGENT_SERVER_ADMINISTRATION_TOKEN: TOKEN,
    },
  });
  const client = grpcClient(t, port.address.replace("0.0.0.0", "127.0.0.1"));
  const metadata = { authorization: `Bearer ${TOKEN}` };
  const methods = [
    "GetPolicies",
    "GetPolicy",
    "UpsertPolicy",
    "DeletePolicy",
    "GetDecisions",
    "GetDynamicConfig",
    "PostDynamicConfig",
    "DeleteDynamicConfig",
  ];
  const codes = await Promise.all(
    methods.map(async (name) => (await client.unary(`${POLICIES}/${name}`, Buffer.of())).code),
  );
  assert.deepEqual(new Set(codes), new Set([CODES.UNAUTHENTICATED.number]));

  const request = { policyName: "p", policyString: EMPTY };
  const message = encode("aperture.policy.language.v1.UpsertPolicyRequest", request);
  const upsert = (options = {}) => client.unary(`${POLICIES}/UpsertPolicy`, message, options);
  assert.equal((await upsert()).code, CODES.UNAUTHENTICATED.number);
  const written = await upsert({ metadata });
  assert.equal(written.code, 0, written.details);
  const answered = await client.unary("/grpc.health.v1.Health/Check", Buffer.of());
  assert.equal(answered.code, 0);
});

test("curl writes and reads policies on loopback, with the content type of its body", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const ask = async (path: string, ...args: readonly string[]) => {
    const { stdout } = await run(curl(), [
      "-s",
      "-w",
      "\n%{http_code}",
      `${address}${path}`,
      ...args,
    ]);
    return stdout.split("\n").at(-1);
  };
  const body = ["-d", JSON.stringify({ policy_string: EMPTY })];
  const json = ["-H", "content-type: application/json"];
  // curl's own content type is that of a form.
  assert.equal(await ask("/v1/policies/p", ...body), "415");
  assert.equal(await ask("/v1/policies/p", ...body, ...json), "200");
  assert.equal(await ask("/v1/policies/p"), "200");
  assert.equal(await ask("/v1/policies/p", "-X", "DELETE"), "200");
});

test("one file holds the keys of both trees; faults name the tree that they belong to", (t) => {
  const load = (text: string) => {
    const folder = folderOf(t, { "sluice.yaml": text });
    return loadStandalone({
      env: {},
      configPath: join(folder, "sluice.yaml"),
      dotenvDir: folder,
    });
  };
  const { agent, controller } = load(`
agent_info: { agent_group: shop }
flow_control: { max_keys: 2048 }
policies: { default_agent_group: shop }
otel: { batch_prerollup: { timeout: 3s } }
log: { level: warn }
`);
  assert.equal(agent.config.agent_info.agent_group, "shop");
  assert.equal(agent.config.flow_control.max_keys, 2_048);
  assert.equal(controller.config.policies.default_agent_group, "shop");
  assert.deepEqual([agent.config.log.level, controller.config.log.level], ["warn", "warn"]);

  const faults = (text: string) => {
    try {
      load(text);
    } catch (thrown) {
      return String(thrown)
        .split("\n")
        .map((line) => line.trim().replace(/ \(.*\/sluice\.yaml/, " (FILE"));
    }
    return assert.fail("no fault");
  };
  assert.deepEqual(
    faults("flow_control: { max_keys: no }\npolicies: { x: 1 }\nlog: { level: 7 }\n").map((line) =>
      line.replace(/wanted.*/, "…"),
    ),
    [
      "ConfigFault: configuration of agent and controller has 3 faults",
      "agent: flow_control.max_keys (FILE:1:27): …",
      "agent and controller: log.level (FILE:3:15): …",
      "controller: policies.x (FILE:2:13): …",
    ],
  );
  const [, unknown = ""] = faults("polices: {}\n");
  assert.match(
    unknown,
    /^agent and controller: polices .*: did you mean policies\?, got an unknown key$/,
  );
});

test("discovery that a controller publishes is refused, as standalone publishes none", (t) => {
  const empty = folderOf(t);
  const load = (env: Readonly<Record<string, string>>) =>
    loadStandalone({ env, configPath: empty, dotenvDir: empty }).agent;
  const prefix = "SVC_AGENT_SERVICE_DISCOVERY_KUBERNETES_";
  const published = { [`${prefix}SOURCE`]: "controller" };
  assert.throws(
    () => load(published),
    /service_discovery\.kubernetes\.source \(SVC_AGENT_\w+\): wanted api_server, .* got controller/,
  );
  load({ ...published, [`${prefix}ENABLED`]: "false" });
});

test("without a configured address, only this machine can connect", (t) => {
  const empty = folderOf(t);
  const load = (env: Readonly<Record<string, string>>) =>
    loadStandalone({ env, configPath: empty, dotenvDir: empty }).agent;
  const untouched = load({});
  assert.equal(untouched.config.server.listener.addr, "127.0.0.1:8080");
  assert.ok(
    untouched.notes.some(({ message }) => /which only this machine can reach/.test(message)),
  );
  const configured = load({ SVC_AGENT_SERVER_LISTENER_ADDR: ":8080" });
  assert.equal(configured.config.server.listener.addr, ":8080");
  assert.equal(
    configured.notes.some(({ message }) => /only this machine/.test(message)),
    false,
  );
});
