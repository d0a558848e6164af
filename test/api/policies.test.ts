// The policy service over operations that only record their calls.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type PolicyOperations, policyGrpcService, policyRoutes } from "#api/policies.ts";
import { Fault } from "#base/fault.ts";
import { type Call, type HttpReply, isAdministration, type Route } from "#base/handler.ts";
import { encode, encodeJson } from "#wire/protobuf/messages.ts";

const replied = new Map<string, string>();
const call = {
  peer: "192.0.2.7",
  reply: (name, value) => void replied.set(name, value),
} as Call;

function fakePolicies() {
  const asked: unknown[][] = [];
  const note = <T>(value: T, ...args: unknown[]): T => {
    asked.push(args);
    return value;
  };
  const view = { policy: { circuit: null, resources: null }, status: "VALID", reason: "" } as const;
  const policies: PolicyOperations = {
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
    configure: async (name, config) =>
      note(Object.keys(config ?? {}).slice(1), "configure", name, config),
    decisions: async (kind) => note({}, "decisions", kind),
  };
  return { policies, asked };
}

function http(policies: PolicyOperations) {
  const routes = policyRoutes(policies);
  return async (
    method: Route["method"],
    path: string,
    params: Record<string, string> = {},
    body: string | Buffer = "",
    query = "",
  ): Promise<HttpReply> => {
    const route = routes.find((each) => each.method === method && each.path === path);
    assert.ok(route, `${method} ${path}`);
    const request = {
      method,
      path,
      params,
      headers: {},
      query: new URLSearchParams(query),
      body: Buffer.from(body),
    };
    return route.handle(request, call);
  };
}

test("a document is given as text, in either spelling, or as an object; the name in the path takes precedence", async () => {
  const { policies, asked } = fakePolicies();
  const ask = http(policies);
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

test("requests of the wrong form never reach the operations", async () => {
  const { policies, asked } = fakePolicies();
  const ask = http(policies);
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
    [
      "POST",
      "/v1/policies/{name}",
      { name: "p" },
      '{"policy_string": {}}',
      /^policy_string: wanted text, got an object$/,
    ],
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

test("a configuration is passed on unchanged, including unusual member names", async () => {
  const { policies, asked } = fakePolicies();
  const body = '{"dynamicConfig": {"__proto__": {"x": 1}, "a.b": [null, 1.5]}}';
  await http(policies)("POST", "/v1/dynamic-configs/{name}", { name: "p" }, body);
  const [[, , config] = []] = asked;
  assert.equal(JSON.stringify(config), '{"__proto__":{"x":1},"a.b":[null,1.5]}');
  assert.equal(({} as { x?: number }).x, undefined);
});

test("a reply warns of keys that nothing reads: in JSON, and in a header, since the message is empty", async () => {
  const { policies } = fakePolicies();
  const config = { used: 1, "limit é": 2, other: 3 };
  const path = "/v1/dynamic-configs/{name}";
  const post = (dynamic_config: object) =>
    http(policies)("POST", path, { name: "p" }, JSON.stringify({ dynamic_config }));
  replied.clear();
  assert.equal((await post({ used: 1 })).body, "{}");
  assert.equal(replied.size, 0);
  assert.equal((await post(config)).body, '{"warnings":["limit é","other"]}');
  assert.equal(replied.get("x-sluice-warning"), "limit ?; other");
  replied.clear();
  const { PostDynamicConfig: method } = policyGrpcService(policies).methods;
  assert.ok(method?.kind === "unary");
  const request = encodeJson("aperture.policy.language.v1.PostDynamicConfigRequest", {
    policy_name: "p",
    dynamic_config: config,
  });
  assert.equal((await method.handle(request, call)).length, 0);
  assert.equal(replied.get("x-sluice-warning"), "limit ?; other");
});

test("a document that is not UTF-8 is refused, in either encoding", async () => {
  const { policies, asked } = fakePolicies();
  const post = http(policies);
  const path = "/v1/policies/{name}";
  const cases = ["\xff\xfe", "caf\xe9", "\xed\xa0\x80", "\xc0\x80"];
  const said = /UTF-8/;
  for (const text of cases) {
    const body = Buffer.from(`{"policy_string":"${text}"}`, "latin1");
    await assert.rejects(post("POST", path, { name: "p" }, body), said);
    const { UpsertPolicy: method } = policyGrpcService(policies).methods;
    assert.ok(method?.kind === "unary");
    const inner = Buffer.from(text, "latin1");
    const bytes = Buffer.concat([Buffer.from([0x0a, 1, 0x70, 0x22, inner.length]), inner]);
    await assert.rejects(async () => method.handle(bytes, call), said);
  }
  await assert.rejects(
    post("POST", path, { name: "p" }, '{"policy_string":"\\ud800"}'),
    /surrogate|Unicode/i,
  );
  const configs = "/v1/dynamic-configs/{name}";
  for (const config of ['{"a":"\\ud800"}', '{"\\udc00":1}', '{"a":[{"b":"x\\ud800"}]}'])
    await assert.rejects(
      post("POST", configs, { name: "p" }, `{"dynamic_config":${config}}`),
      /surrogate/,
    );
  assert.deepEqual(asked, []);
});

test("the graph's format and depth", async () => {
  const { policies, asked } = fakePolicies();
  const ask = http(policies);
  for (const query of ["", "format=dot&depth=2", "depth=all"])
    await ask("GET", "/v1/policies/{name}/graph", { name: "p" }, "", query);
  assert.deepEqual(asked, [
    ["graph", "p", "mermaid", 0],
    ["graph", "p", "dot", 2],
    ["graph", "p", "mermaid", Number.POSITIVE_INFINITY],
  ]);
});

test("gRPC calls the same operations and refuses bytes that are not a message", async () => {
  const { policies, asked } = fakePolicies();
  const { methods } = policyGrpcService(policies);
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
  // Unset fields are absent, so that they get their defaults.
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

test("requests that break a validation rule of their proto file never reach the service", async () => {
  const { policies, asked } = fakePolicies();
  const { methods } = policyGrpcService(policies);
  const unary = (name: string, message: Uint8Array) => async () => {
    const method = methods[name];
    assert.ok(method?.kind === "unary", name);
    return method.handle(message, call);
  };
  const noName = "policy_name: wanted a string of at least 1 character, got an empty string";
  const noConfig = "dynamic_config: wanted an object, got nothing";
  const message = (name: string, json: object) =>
    encodeJson(`aperture.policy.language.v1.${name}` as "aperture.policy.language.v1.Policy", json);
  const cases: readonly [string, Uint8Array, string][] = [
    ["UpsertPolicy", message("UpsertPolicyRequest", { policy_string: "a: 1" }), noName],
    ["GetDynamicConfig", message("GetDynamicConfigRequest", {}), noName],
    ["DeleteDynamicConfig", message("DeleteDynamicConfigRequest", {}), noName],
    ["PostDynamicConfig", message("PostDynamicConfigRequest", { policy_name: "p" }), noConfig],
    ["PostDynamicConfig", message("PostDynamicConfigRequest", {}), `${noName}; ${noConfig}`],
  ];
  for (const [name, bytes, wanted] of cases) {
    await assert.rejects(unary(name, bytes), new Fault("INVALID_ARGUMENT", wanted), name);
  }
  for (const body of ["{}", '{"dynamic_config": null}']) {
    await assert.rejects(
      http(policies)("POST", "/v1/dynamic-configs/{name}", { name: "p" }, body),
      new Fault("INVALID_ARGUMENT", noConfig),
    );
    await assert.rejects(
      http(policies)("POST", "/v1/dynamic-configs/{name}", { name: "" }, body),
      new Fault("INVALID_ARGUMENT", `${noName}; ${noConfig}`),
    );
  }
  assert.deepEqual(asked, []);
});

test("the service and every route of it are administration", () => {
  const { policies } = fakePolicies();
  for (const served of [...policyRoutes(policies), policyGrpcService(policies)])
    assert.equal(isAdministration(served), true);
});

test("the configuration of a policy is returned as it is, or as null", async () => {
  const { policies } = fakePolicies();
  const path = "/v1/dynamic-configs/{name}";
  const get = (operations: PolicyOperations) => http(operations)("GET", path, { name: "p" });
  assert.deepEqual(JSON.parse(String((await get(policies)).body)), { dynamic_config: null });
  const config = { limit: 0, off: false };
  const reply = await get({ ...policies, dynamicConfig: () => config });
  assert.deepEqual(JSON.parse(String(reply.body)), { dynamic_config: config });
});

test("over gRPC, a configuration in several parts or of more than 256 KiB is refused undecoded", async () => {
  const { policies, asked } = fakePolicies();
  const { methods } = policyGrpcService(policies);
  const send = async (name: string, ...parts: readonly Uint8Array[]) => {
    const method = methods[name];
    assert.ok(method?.kind === "unary", name);
    return method.handle(Buffer.concat(parts), call);
  };
  const part = (config: Readonly<Record<string, unknown>>) =>
    encodeJson("aperture.policy.language.v1.PostDynamicConfigRequest", {
      policy_name: "p",
      dynamic_config: config,
    });
  const large = "x".repeat(300 * 1024);
  await assert.rejects(send("PostDynamicConfig", part({ a: 1 }), part({ b: 2 })), {
    code: "INVALID_ARGUMENT",
    message: "dynamic_config: wanted one part, got more",
  });
  await assert.rejects(send("PostDynamicConfig", part({ a: large })), {
    code: "RESOURCE_EXHAUSTED",
  });
  assert.deepEqual(asked, []);
  // Policies are larger, and the last one of several texts counts, as in any protobuf message.
  const text = (policyString: string) =>
    encode("aperture.policy.language.v1.UpsertPolicyRequest", { policyName: "p", policyString });
  await send("UpsertPolicy", text("short"), text(large));
  assert.deepEqual(asked, [["upsert", "p", large]]);
});

test("reads wait in the queue of costly work; writes take JSON of up to 4 MiB", () => {
  for (const route of policyRoutes(fakePolicies().policies)) {
    const { method, path, costly = false, body, maxBody } = route;
    const bounds = method === "GET" || method === "DELETE" ? [] : ["json", 4 * 1024 * 1024];
    assert.deepEqual(
      [body, maxBody].filter((each) => each !== undefined),
      bounds,
      path,
    );
    assert.equal(costly, method === "GET", `${method} ${path}`);
  }
});
