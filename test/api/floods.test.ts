// Every door reads or refuses a message of nothing but tiny repeats in about the time that its bytes take:
// measured in time of the processor, for every field of every message that a caller may send at any rate.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type protobuf from "protobufjs";
import { exportLogs } from "#api/access-log.ts";
import { AUTHORIZATION_SERVICE, CHECK_HTTP_SERVICE, CHECK_SERVICE } from "#api/doors.ts";
import { type PolicyDesk, policyRoutes, policyService } from "#api/policies.ts";
import { Fault } from "#base/fault.ts";
import type { UnaryHandler } from "#serve/handler.ts";
import { Messages } from "#wire/messages.ts";
import { floodsOf } from "../wire/flood.ts";
import { jsonFloodsOf } from "../wire/json-flood.ts";
import { otlp } from "../wire/otlp.ts";
import { agentOf, callOf, doorsOf, handlerOf, post } from "./agent.ts";
import { CP, perUser, threeEach } from "./corpus.ts";

const MIB = 1024 * 1024;
/** Largest message of the gRPC port, and largest body of most JSON routes. */
const LARGEST = { binary: 4 * MIB, json: MIB };
/** All are tried at this part of the size, and what took longest at the whole. */
const PART = 16;
/** ms of the processor. Honest costs are below 10 and 150: what grows with the square is far above. */
const MOST = { part: 100, whole: 1_000 };
const WORST = 3;
const TRIES = 3;

const own = new Messages(new URL("../../src/wire/gen/aperture.json", import.meta.url));
const proxy = new Messages(new URL("../../src/wire/gen/ext-authz.json", import.meta.url));

const { services, routes } = doorsOf(agentOf([[perUser, threeEach]]).mind);
const call = callOf(CP);

const refuse = (): never => {
  throw new Fault("NOT_FOUND", "nothing is here");
};
/** Forgets whatever it is told: reading documents is not this room's. */
const desk: PolicyDesk = {
  list: () => new Map(),
  get: refuse,
  upsert: async () => "h",
  remove: async () => undefined,
  validate: async () => ({}),
  graph: refuse,
  dynamicConfig: () => undefined,
  configure: async () => undefined,
  decisions: async () => ({}),
};
const policies = [policyService(desk)];
const POLICIES = policies[0]?.name ?? "";

interface Door {
  readonly title: string;
  readonly type: protobuf.Type;
  /** How deep floods are made. */
  readonly deepest: number;
  /** What a door wants to see before it judges: the control point "here". */
  readonly before: Uint8Array;
  readonly handle: UnaryHandler;
}

const controlPoint = (field: number) => Buffer.from([field * 8 + 2, 4, ...Buffer.from("here")]);
const NONE = new Uint8Array();
const POLICY = "aperture.policy.language.v1";

const DOORS: readonly Door[] = [
  {
    title: "Check",
    type: own.type("aperture.flowcontrol.check.v1.CheckRequest"),
    ...{ deepest: 6, before: controlPoint(1) },
    handle: handlerOf(services, CHECK_SERVICE, "Check"),
  },
  {
    title: "CheckHTTP",
    type: own.type("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest"),
    ...{ deepest: 6, before: controlPoint(4) },
    handle: handlerOf(services, CHECK_HTTP_SERVICE, "CheckHTTP"),
  },
  {
    title: "FlowEnd",
    type: own.type("aperture.flowcontrol.check.v1.FlowEndRequest"),
    ...{ deepest: 6, before: controlPoint(1) },
    handle: handlerOf(services, CHECK_SERVICE, "FlowEnd"),
  },
  {
    title: "the proxy's Check",
    type: proxy.type("envoy.service.auth.v3.CheckRequest"),
    ...{ deepest: 6, before: NONE },
    handle: handlerOf(services, AUTHORIZATION_SERVICE, "Check"),
  },
  {
    title: "Export of logs",
    type: otlp.lookupType("Request"),
    ...{ deepest: 6, before: NONE },
    handle: exportLogs({ take: () => true }),
  },
  {
    title: "UpsertPolicy",
    type: own.type(`${POLICY}.UpsertPolicyRequest`),
    ...{ deepest: 2, before: NONE },
    handle: handlerOf(policies, POLICIES, "UpsertPolicy"),
  },
  {
    title: "PostDynamicConfig",
    type: own.type(`${POLICY}.PostDynamicConfigRequest`),
    ...{ deepest: 4, before: NONE },
    handle: handlerOf(policies, POLICIES, "PostDynamicConfig"),
  },
];

const all = [...routes, ...policyRoutes(desk)];
const JSON_DOORS = [
  ["/v1/flowcontrol/check", "aperture.flowcontrol.check.v1.CheckRequest"],
  ["/v1/flowcontrol/checkhttp", "aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest"],
  ["/v1/flowcontrol/flowend", "aperture.flowcontrol.check.v1.FlowEndRequest"],
  ["/v1/dynamic-configs/{name}", `${POLICY}.PostDynamicConfigRequest`],
] as const;

interface Flood {
  readonly name: string;
  make(size: number): Buffer;
}

/** ms of the processor until a message is answered or refused. */
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

/** The least of some tries, each with bytes of its own; one is enough where it is within the bound. */
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
  // What is imported with the first call is not the flood's.
  for (const flood of floods.slice(0, 2)) await cost(() => ask(flood.make(64)));
  for (const flood of floods) {
    const ms = await least(MOST.part, () => flood.make(largest / PART), ask);
    assert.ok(ms < MOST.part, `${flood.name}: ${ms} ms for ${largest / PART} bytes`);
    costs.push({ flood, ms });
  }
  costs.sort((one, other) => other.ms - one.ms);
  for (const { flood } of costs.slice(0, WORST)) {
    const ms = await least(MOST.whole, () => flood.make(largest), ask);
    assert.ok(ms < MOST.whole, `${flood.name}: ${ms} ms for ${largest} bytes`);
  }
}

describe("a binary message of nothing but repeats of one field", () => {
  for (const { title, type, deepest, before, handle } of DOORS) {
    it(`is soon answered or refused by ${title}`, async () => {
      const floods = floodsOf(type, deepest).map(({ name, make }) => ({
        name,
        make: (size: number) => make(size, before),
      }));
      assert.ok(floods.length > 5);
      await tryAll(floods, LARGEST.binary, (message) => handle(message, call));
    });
  }
});

describe("a JSON body of nothing but repeats", () => {
  for (const [path, name] of JSON_DOORS) {
    it(`is soon answered or refused at ${path}`, async () => {
      const floods = jsonFloodsOf(own.type(name)).map((flood) => ({
        name: flood.name,
        make: (size: number) => flood.make(size, '"control_point":"here"'),
      }));
      assert.ok(floods.length > 50);
      await tryAll(floods, LARGEST.json, (message) => post(all, path, String(message), call));
    });
  }
});
