// Clients that choose their label values through the `baggage` header: to get a key of their own, to use up somebody else's
// limit, or to be selected by another rule. Baggage never sets a label that a classifier makes, and costs little.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { http1 } from "../kit/clients/http.ts";
import { AT } from "../kit/servers/bootstrap.ts";
import { startEnvoy, startService } from "../kit/servers/envoy.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const CheckResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const CAPACITY = 3;

/** A limit for each value of a label, which refuses requests without it. */
const limitBy = (label: string) => `circuit:
  components:
    - flow_control:
        rate_limiter:
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 3600s, limit_by_label_key: ${label}, on_missing_label: refuse }
          selectors: [{ control_point: ingress }]
`;

/** A limit by `who`, which a classifier takes from a header; and a further limiter and classifier. */
const policyOf = (limiter = "", classifier = "") => `${limitBy("who")}${limiter}
resources:
  flow_control:
    classifiers:
      - selectors: [{ control_point: ingress }]
        rules:
          who: { extractor: { from: request.http.headers.x-api-key } }
${classifier}`;

/** A limit by a label that only baggage has. */
const BY_BAGGAGE = limitBy("tenant");

type Headers = Readonly<Record<string, string>>;

/** Number of accepted requests, of one for each set of headers. */
async function accepted(
  ask: (headers: Headers) => Promise<boolean>,
  all: readonly Headers[],
): Promise<number> {
  let count = 0;
  for (const headers of all) if (await ask(headers)) count++;
  return count;
}

const invented = Array.from({ length: 20 }, (_, at) => ({ baggage: `who=r${at}` }));
const repeated = (headers: Headers) => Array.from({ length: 20 }, () => headers);

/** The attacks, and that the limit still is what it was for those who have a key. */
async function attack(ask: (headers: Headers) => Promise<boolean>): Promise<void> {
  assert.equal(await accepted(ask, repeated({})), 0, "without a key");
  assert.equal(await accepted(ask, invented), 0, "with invented keys");
  assert.equal(await accepted(ask, repeated({ baggage: "who=vic" })), 0, "with another's key");
  assert.equal(await accepted(ask, repeated({ "x-api-key": "vic" })), CAPACITY, "the other one");
  const both = { "x-api-key": "ann", baggage: "who=vic" };
  assert.equal(await accepted(ask, repeated(both)), CAPACITY, "one key and another's baggage");
}

test("a client without its key gets none by baggage, over JSON", async (t) => {
  const { address } = await standalone(t, { policies: { "who.yaml": policyOf() } });
  await attack((headers) => passes(address, "ingress", headers));
  // Nor does the reply say that the classifier found one.
  const headers = { baggage: "trip=7,who=vic" };
  const check = { control_point: "ingress", request: { method: "GET", path: "/", headers } };
  const { body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
  const { flow_label_keys: keys, telemetry_flow_labels: labels } = JSON.parse(body).check_response;
  assert.deepEqual([keys.includes("trip"), labels.trip], [true, "7"]);
  assert.deepEqual([keys.includes("who"), labels.who], [false, undefined]);
});

test("a client without its key gets none by baggage, over ext_authz", async (t) => {
  const { address } = await standalone(t, { policies: { "who.yaml": policyOf() } });
  const client = grpcClient(t, address);
  await attack(async (headers) => {
    const request = { attributes: { request: { http: { method: "GET", headers } } } };
    const message = toBinary(CheckRequestSchema, create(CheckRequestSchema, request));
    const metadata = { "control-point": "ingress" };
    const path = "/envoy.service.auth.v3.Authorization/Check";
    const reply = await client.unary(path, message, { metadata });
    const { httpResponse } = fromBinary(CheckResponseSchema, reply.message ?? new Uint8Array());
    return httpResponse.case === "okResponse";
  });
});

/** An Envoy with the shipped bootstrap, whose clients' baggage is ignored unless `clientBaggage` says otherwise. */
async function envoyBefore(t: TestContext, agent: string, clientBaggage?: string) {
  const envoy = await startEnvoy(t, {
    agent,
    service: await startService(t),
    edit(bootstrap) {
      const call = [...AT.extAuthz, "grpc_service"];
      bootstrap.set([...call, "timeout"], "5s");
      if (clientBaggage === undefined) return;
      bootstrap.set([...call, "initial_metadata", 1, "value"], clientBaggage);
    },
  });
  const ask = http1(t, envoy.url);
  return (headers: Headers) => ask({ method: "GET", path: "/", headers });
}

test("a client without its key gets none by baggage, behind an Envoy that believes baggage", async (t) => {
  const { address } = await standalone(t, { policies: { "who.yaml": policyOf() } });
  const get = await envoyBefore(t, address, "believe");
  await attack(async (headers) => (await get(headers)).status === 200);
});

test("the shipped Envoy has baggage ignored unless it is told otherwise, and the service gets it", async (t) => {
  const { address } = await standalone(t, { policies: { "tenant.yaml": BY_BAGGAGE } });
  for (const [clientBaggage, wanted] of [
    [undefined, 0],
    ["ignore", 0],
    ["beleive", 0],
    ["believe", CAPACITY],
  ] as const) {
    const get = await envoyBefore(t, address, clientBaggage);
    const ask = async (headers: Headers) => (await get(headers)).status === 200;
    const baggage = { baggage: `tenant=${clientBaggage}` };
    assert.equal(await accepted(ask, repeated(baggage)), wanted, `${clientBaggage}`);
  }
});

test("members that are ignored still reach the service beside what classifiers add", async (t) => {
  const { address } = await standalone(t, { policies: { "who.yaml": policyOf() } });
  const get = await envoyBefore(t, address);
  const { status, body } = await get({ "x-api-key": "bob", baggage: "trip=7;p=1,who=vic" });
  assert.equal(status, 200, body);
  assert.equal(JSON.parse(body).headers.baggage, "trip=7;p=1,who=bob");
});

const SELECTED = `
    - flow_control:
        rate_limiter:
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 3600s }
          selectors:
            - control_point: plans
              label_matcher: { match_labels: { plan: free } }
            - control_point: plans
              label_matcher:
                match_list: [{ key: tenant, operator: NotIn, values: [inside] }]
`;
const CLASSIFIERS = `
      - selectors: [{ control_point: plans, label_matcher: { match_labels: { http.method: POST } } }]
        rules:
          plan: { extractor: { from: request.http.headers.x-plan } }
          tenant: { extractor: { from: request.http.headers.x-tenant } }
`;

test("selectors and matchers do not read baggage for labels of classifiers, selected or not", async (t) => {
  const policy = policyOf(SELECTED, CLASSIFIERS);
  const { address } = await standalone(t, { policies: { "plans.yaml": policy } });
  // `passes` sends GET, for which the classifier does not run.
  assert.equal(await passes(address, "plans", { baggage: "tenant=inside,plan=gold" }), false);
});

/** How many requests of a tenant pass an agent with this configuration. */
async function tenantPasses(t: TestContext, env: Headers): Promise<number> {
  const { address } = await standalone(t, { policies: { "tenant.yaml": BY_BAGGAGE }, env });
  const ask = (headers: Headers) => passes(address, "ingress", headers);
  return await accepted(ask, repeated({ baggage: "tenant=a" }));
}

test("baggage that a policy names and no classifier makes is believed by default", async (t) => {
  assert.equal(await tenantPasses(t, {}), CAPACITY);
});

test("flow_control.baggage.members: only these are believed", async (t) => {
  const members = (value: string) => ({ SVC_AGENT_FLOW_CONTROL_BAGGAGE_MEMBERS: value });
  assert.equal(await tenantPasses(t, members("[trip,user]")), 0);
  assert.equal(await tenantPasses(t, members("[trip,tenant]")), CAPACITY);
});

test("flow_control.baggage.enabled: none is believed", async (t) => {
  assert.equal(await tenantPasses(t, { SVC_AGENT_FLOW_CONTROL_BAGGAGE_ENABLED: "false" }), 0);
});
