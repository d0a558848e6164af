// Every endpoint reads or refuses a message that consists of tiny repeats of one field in time proportional to
// its size: measured as processor time, for every field of every message that callers may send without limit.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type protobuf from "protobufjs";
import { AUTHORIZATION_SERVICE, CHECK_HTTP_SERVICE, CHECK_SERVICE } from "#api/endpoints.ts";
import { type PolicyOperations, policyGrpcService, policyRoutes } from "#api/policies.ts";
import { exportRecords } from "#api/reports/otlp.ts";
import { Fault } from "#base/fault.ts";
import type { UnaryHandler } from "#base/handler.ts";
import { agentOf, callOf, endpointsOf, handlerOf, post } from "../kit/api/agent.ts";
import { CP, perUser, threeEach } from "../kit/api/corpus.ts";
import { readWhole } from "../kit/messages/access-log.ts";
import { definitions } from "../kit/messages/definitions.ts";
import { jsonFloodsOf } from "../kit/messages/json-flood.ts";
import { otlp } from "../kit/messages/otlp.ts";
import { floodsOf } from "../kit/messages/protobuf-flood.ts";

const MIB = 1024 * 1024;
/** Largest message of the gRPC port, and largest body of most JSON routes. */
const LARGEST = { binary: 4 * MIB, json: MIB };
/** All floods are tried at 1/PART of the size, and the WORST few at full size. */
const PART = 16;
/** Processor time in ms. Linear costs are below 10 and 150; quadratic costs are far above the limits. */
const MAX_MS = { part: 100, whole: 1_000 };
const WORST = 3;
const TRIES = 3;

const { services, routes } = endpointsOf(agentOf([[perUser, threeEach]]).flowController);
const call = callOf(CP);

const refuse = (): never => {
  throw new Fault("NOT_FOUND", "nothing is here");
};
/** Does nothing: reading policy documents belongs to another room. */
const operations: PolicyOperations = {
  list: () => new Map(),
  get: refuse,
  upsert: async () => "h",
  remove: async () => undefined,
  validate: async () => ({}),
  graph: refuse,
  dynamicConfig: () => undefined,
  configure: async () => [],
  decisions: async () => ({}),
};
const policies = [policyGrpcService(operations)];
const POLICIES = policies[0]?.name ?? "";

interface BinaryEndpoint {
  readonly title: string;
  readonly type: protobuf.Type;
  /** Deepest nesting of the repeats. */
  readonly deepest: number;
  /** Bytes in front of the flood that the endpoint needs to accept the message: the control point "here". */
  readonly before: Uint8Array;
  readonly handle: UnaryHandler;
}

const controlPoint = (field: number) => Buffer.from([field * 8 + 2, 4, ...Buffer.from("here")]);
const NONE = new Uint8Array();
const POLICY = "aperture.policy.language.v1";

const BINARY_ENDPOINTS: readonly BinaryEndpoint[] = [
  {
    title: "Check",
    type: definitions.type("aperture.flowcontrol.check.v1.CheckRequest"),
    deepest: 6,
    before: controlPoint(1),
    handle: handlerOf(services, CHECK_SERVICE, "Check"),
  },
  {
    title: "CheckHTTP",
    type: definitions.type("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest"),
    deepest: 6,
    before: controlPoint(4),
    handle: handlerOf(services, CHECK_HTTP_SERVICE, "CheckHTTP"),
  },
  {
    title: "FlowEnd",
    type: definitions.type("aperture.flowcontrol.check.v1.FlowEndRequest"),
    deepest: 6,
    before: controlPoint(1),
    handle: handlerOf(services, CHECK_SERVICE, "FlowEnd"),
  },
  {
    title: "ext_authz Check",
    type: definitions.type("envoy.service.auth.v3.CheckRequest"),
    deepest: 6,
    before: NONE,
    handle: handlerOf(services, AUTHORIZATION_SERVICE, "Check"),
  },
  {
    title: "Export of logs",
    type: otlp.lookupType("Request"),
    deepest: 6,
    before: NONE,
    handle: exportRecords("logs", { consume: () => true }),
  },
  {
    title: "StreamAccessLogs",
    type: definitions.type("envoy.service.accesslog.v3.StreamAccessLogsMessage"),
    deepest: 6,
    before: NONE,
    handle(message) {
      readWhole(message, { entry() {}, unread() {} });
      return NONE;
    },
  },
  {
    title: "UpsertPolicy",
    type: definitions.type(`${POLICY}.UpsertPolicyRequest`),
    deepest: 2,
    before: NONE,
    handle: handlerOf(policies, POLICIES, "UpsertPolicy"),
  },
  {
    title: "PostDynamicConfig",
    type: definitions.type(`${POLICY}.PostDynamicConfigRequest`),
    deepest: 4,
    before: NONE,
    handle: handlerOf(policies, POLICIES, "PostDynamicConfig"),
  },
];

const all = [...routes, ...policyRoutes(operations)];
const JSON_ENDPOINTS = [
  ["/v1/flowcontrol/check", "aperture.flowcontrol.check.v1.CheckRequest"],
  ["/v1/flowcontrol/checkhttp", "aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest"],
  ["/v1/flowcontrol/flowend", "aperture.flowcontrol.check.v1.FlowEndRequest"],
  ["/v1/dynamic-configs/{name}", `${POLICY}.PostDynamicConfigRequest`],
] as const;

interface Flood {
  readonly name: string;
  make(size: number): Buffer;
}

/** Processor time in ms until a message is answered or refused. */
async function cost(ask: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  try {
    await ask();
  } catch (thrown) {
    assert.ok(thrown instanceof Fault, String(thrown));
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** Lowest cost of up to TRIES tries, each with fresh bytes; stops at the first within `most`. */
async function least(most: number, make: () => Buffer, ask: (message: Buffer) => unknown) {
  let found = Number.POSITIVE_INFINITY;
  for (let at = 0; at < TRIES && found > most; at++) {
    const message = make();
    found = Math.min(found, await cost(() => ask(message)));
  }
  return found;
}

async function tryAll(
  floods: readonly Flood[],
  largest: number,
  ask: (message: Buffer) => unknown,
): Promise<void> {
  const costs: { readonly flood: Flood; readonly ms: number }[] = [];
  // The first calls load modules lazily; their cost must not count.
  for (const flood of floods.slice(0, 2)) await cost(() => ask(flood.make(64)));
  for (const flood of floods) {
    const ms = await least(MAX_MS.part, () => flood.make(largest / PART), ask);
    assert.ok(ms < MAX_MS.part, `${flood.name}: ${ms} ms for ${largest / PART} bytes`);
    costs.push({ flood, ms });
  }
  costs.sort((one, other) => other.ms - one.ms);
  for (const { flood } of costs.slice(0, WORST)) {
    const ms = await least(MAX_MS.whole, () => flood.make(largest), ask);
    assert.ok(ms < MAX_MS.whole, `${flood.name}: ${ms} ms for ${largest} bytes`);
  }
}

describe("a binary message that consists of repeats of one field", () => {
  for (const { title, type, deepest, before, handle } of BINARY_ENDPOINTS) {
    it(`is answered or refused quickly by ${title}`, async () => {
      const floods = floodsOf(type, deepest).map(({ name, make }) => ({
        name,
        make: (size: number) => make(size, before),
      }));
      assert.ok(floods.length > 5);
      await tryAll(floods, LARGEST.binary, (message) => handle(message, call));
    });
  }
});

describe("a JSON body that consists of repeats", () => {
  for (const [path, name] of JSON_ENDPOINTS) {
    it(`is answered or refused quickly at ${path}`, async () => {
      const floods = jsonFloodsOf(definitions.type(name)).map((flood) => ({
        name: flood.name,
        make: (size: number) => flood.make(size, '"control_point":"here"'),
      }));
      assert.ok(floods.length > 50);
      await tryAll(floods, LARGEST.json, (message) => post(all, path, String(message), call));
    });
  }
});
