// The policy service over a desk that only remembers what it was asked.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type PolicyDesk, policyRoutes, policyService } from "#api/policies.ts";
import type { Fault } from "#base/fault.ts";
import type { Call, HttpReply, Route } from "#serve/handler.ts";
import { encode } from "#wire/messages.ts";

const call = { peer: "192.0.2.7" } as Call;

function fakeDesk() {
  const asked: unknown[][] = [];
  const note = <T>(value: T, ...args: unknown[]): T => {
    asked.push(args);
    return value;
  };
  const view = { policy: { circuit: null, resources: null }, status: "VALID", reason: "" } as const;
  const desk: PolicyDesk = {
    list: () => note(new Map([["p", view]]), "list"),
    get: (name) => note(view, "get", name),
    async upsert(name, text, peer) {
      assert.equal(peer, call.peer);
      return note("h", "upsert", name, text);
    },
    remove: async (name) => note(undefined, "remove", name),
    validate: async (name, text) => note({ valid: true }, "validate", name, text),
    graph: (name, format, depth) =>
      note({ type: "text/plain", text: "" }, "graph", name, format, depth),
    dynamicConfig: (name) => note(undefined, "dynamicConfig", name),
    configure: async (name, config) => note(undefined, "configure", name, config),
    decisions: async (kind) => note({}, "decisions", kind),
  };
  return { desk, asked };
}

function http(desk: PolicyDesk) {
  const routes = policyRoutes(desk);
  return async (
    method: Route["method"],
    path: string,
    params: Record<string, string> = {},
    body = "",
    query = "",
  ): Promise<HttpReply> => {
    const route = routes.find((each) => each.method === method && each.path === path);
    assert.ok(route, `${method} ${path}`);
    const request = {
      ...{ method, path, params, headers: {}, query: new URLSearchParams(query) },
      body: Buffer.from(body),
    };
    return route.handle(request, call);
  };
}

test("a document comes as text in either spelling, or as an object; the path's name wins", async () => {
  const { desk, asked } = fakeDesk();
  const ask = http(desk);
  const one = "/v1/policies/{name}";
  const bodies = [
    '{"policy_string": "a: 1", "policy_name": "other", "unknown": 1}',
    '{"policyString": "a: 1"}',
    '{"policy": {"circuit": {}}}',
  ];
  for (const body of bodies) {
    const reply = await ask("POST", one, { name: "p" }, body);
    assert.equal(reply.body, '{"policy_hash":"h"}');
    await ask("POST", `${one}/validate`, { name: "p" }, body);
  }
  assert.deepEqual(asked, [
    ["upsert", "p", "a: 1"],
    ["validate", "p", "a: 1"],
    ["upsert", "p", "a: 1"],
    ["validate", "p", "a: 1"],
    ["upsert", "p", '{"circuit":{}}'],
    ["validate", "p", '{"circuit":{}}'],
  ]);
});

test("requests of the wrong form never reach the desk", async () => {
  const { desk, asked } = fakeDesk();
  const ask = http(desk);
  const cases: [Route["method"], string, Record<string, string>, string, RegExp][] = [
    ["POST", "/v1/policies/{name}", { name: "p" }, "", /policy_string: wanted a policy/],
    ["POST", "/v1/policies/{name}", { name: "p" }, "[]", /wanted|must be a JSON object/],
    [
      "POST",
      "/v1/policies/{name}",
      { name: "p" },
      '{"policy_string": 5}',
      /wanted text, got a number/,
    ],
    [
      "POST",
      "/v1/policies/{name}",
      { name: "a/b" },
      '{"policy_string": "x"}',
      /policy_name: wanted/,
    ],
    ["POST", "/v1/policies/{name}", { name: "p" }, '{"policy": 5}', /^policy: wanted an object/],
    ["POST", "/v1/policies/{name}", { name: "p" }, '{"policy": [{}]}', /^policy: .*got a list/],
    [
      "POST",
      "/v1/policies/{name}",
      { name: "p" },
      '{"policy": {}, "policy_string": "x"}',
      /^policy: wanted nothing beside policy_string, got both/,
    ],
    ["POST", "/v1/policies/{name}/validate", { name: "p" }, "{}", /policy_string: wanted a policy/],
    ["POST", "/v1/dynamic-configs/{name}", { name: "p" }, "{}", /dynamic_config: wanted an object/],
    ["POST", "/v1/dynamic-configs/{name}", { name: "p" }, '{"dynamic_config": [1]}', /got a list/],
    ["GET", "/v1/policies/{name}/graph", { name: "p" }, "", /depth: wanted a whole number/],
  ];
  for (const [method, path, params, body, wanted] of cases) {
    await assert.rejects(
      ask(method, path, params, body, "depth=x"),
      (thrown: Fault) => thrown.code === "INVALID_ARGUMENT" && wanted.test(thrown.message),
      `${method} ${path} ${body}`,
    );
  }
  assert.deepEqual(asked, []);
});

test("a configuration is handed on as it is, odd member names included", async () => {
  const { desk, asked } = fakeDesk();
  const body = '{"dynamicConfig": {"__proto__": {"x": 1}, "a.b": [null, 1.5]}}';
  await http(desk)("POST", "/v1/dynamic-configs/{name}", { name: "p" }, body);
  const [[, , config] = []] = asked;
  assert.equal(JSON.stringify(config), '{"__proto__":{"x":1},"a.b":[null,1.5]}');
  assert.equal(({} as { x?: number }).x, undefined);
});

test("the graph's format and depth", async () => {
  const { desk, asked } = fakeDesk();
  const ask = http(desk);
  for (const query of ["", "format=dot&depth=2", "depth=all"])
    await ask("GET", "/v1/policies/{name}/graph", { name: "p" }, "", query);
  assert.deepEqual(asked, [
    ["graph", "p", "mermaid", 0],
    ["graph", "p", "dot", 2],
    ["graph", "p", "mermaid", Number.POSITIVE_INFINITY],
  ]);
});

test("over gRPC the same operations; bytes that are no message are refused", async () => {
  const { desk, asked } = fakeDesk();
  const { methods } = policyService(desk);
  const unary = (name: string) => {
    const method = methods[name];
    assert.ok(method?.kind === "unary", name);
    return method.handle;
  };
  const request = encode("aperture.policy.language.v1.UpsertPolicyRequest", {
    policyName: "p",
    policy: { circuit: { components: [{ inverter: {} }] } },
  });
  const reply = await unary("UpsertPolicy")(request, call);
  assert.deepEqual(Buffer.from(reply), Buffer.from("\x0a\x01h"));
  // What was not set is absent, so that it gets its default.
  assert.deepEqual(asked, [["upsert", "p", '{"circuit":{"components":[{"inverter":{}}]}}']]);
  await assert.rejects(
    async () => unary("UpsertPolicy")(Buffer.from([0x0a, 0xff]), call),
    (thrown: Fault) => thrown.code === "INVALID_ARGUMENT",
  );
  await assert.rejects(
    async () => unary("PostDynamicConfig")(new Uint8Array(), call),
    (thrown: Fault) => thrown.code === "INVALID_ARGUMENT" && /policy_name/.test(thrown.message),
  );
});

test("every route is named loudly where strangers reach it", () => {
  const { desk } = fakeDesk();
  for (const { revealing, path } of policyRoutes(desk)) assert.equal(revealing, true, path);
});
