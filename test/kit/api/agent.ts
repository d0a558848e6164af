// An agent without sockets: the real flow controller and the real endpoints, called through their handlers.

import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { createOperationContext, type OperationContext } from "#api/context.ts";
import {
  AUTHORIZATION_SERVICE,
  CHECK_HTTP_SERVICE,
  CHECK_SERVICE,
  grpcServices,
  httpRoutes,
  unreadHandlers,
} from "#api/endpoints.ts";
import { type Forward, gatewayRoutes } from "#api/gateway.ts";
import type { RecordConsumer } from "#api/reports/otlp.ts";
import { NO_SERVICES, type ServiceLookup } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import type { Call, GrpcService, Held, HttpReply, Route } from "#base/handler.ts";
import { createFlowController, type FlowController } from "#flow/flow-controller.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type { LimiterNumbers, Rule, SelectorRule } from "#flow/rules.ts";
import type { EntryReader } from "#wire/access-log/message.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { fakeClock } from "../clock.ts";
import { recordingObserver } from "../sluice/flow.ts";

const CheckRequestSchema = schemaOf("aperture.flowcontrol.check.v1.CheckRequest");
const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const FlowEndRequestSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndRequest");
const FlowEndResponseSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndResponse");
const CheckHTTPRequestSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
const AuthRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");
const AuthResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

export const anywhere: SelectorRule = {
  controlPoint: "here",
  agentGroup: "default",
  service: "any",
  matcher: { labels: {}, list: [], expression: undefined },
};

export const common = {
  policyName: "p",
  policyHash: "h1",
  selectors: [anywhere],
  onFailure: "local",
  onMissingLabel: "pass",
  deniedStatus: 0,
} as const;

export interface FakeCall extends Call {
  readonly replied: Map<string, string>;
  /** The slots that the reply leaves taken. */
  readonly held: Held[];
  leave(): void;
}

export function callOf(
  headers: Readonly<Record<string, string>> = {},
  over: Partial<Call> = {},
): FakeCall {
  const leaving = new AbortController();
  const replied = new Map<string, string>();
  const held: Held[] = [];
  return {
    method: "",
    deadline: Number.POSITIVE_INFINITY,
    peer: "127.0.0.1",
    header: (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined),
    signal: () => leaving.signal,
    whenCallerLeaves(left) {
      if (leaving.signal.aborted) left();
      else leaving.signal.addEventListener("abort", left);
    },
    releaseIfUndelivered: (taken) => void held.push(taken),
    reply: (name, value) => void replied.set(name, value),
    trailer: (name, value) => void replied.set(name, value),
    ...over,
    replied,
    held,
    leave: () => leaving.abort(),
  };
}

export function handlerOf(all: readonly GrpcService[], service: string, method: string) {
  const found = all.find(({ name }) => name === service)?.methods[method];
  if (found?.kind !== "unary") throw new Error(`no ${service}/${method}`);
  return found.handle;
}

export async function post(
  all: readonly Route[],
  path: string,
  body: unknown,
  call: Call = callOf(),
): Promise<HttpReply> {
  const route = all.find((each) => each.path === path && each.method === "POST");
  if (route === undefined) throw new Error(`no ${path}`);
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const request = { method: "POST", path, query: new URLSearchParams(), params: {}, headers: {} };
  return await route.handle({ ...request, body: Buffer.from(text) }, call);
}

/** Takes every record of a finished flow and does nothing with it. */
export const NO_RECORDS: RecordConsumer & EntryReader = {
  consume: () => true,
  entry() {},
  unread() {},
};

/** The JSON routes of an agent that has this flow controller and forwards what it can read. */
export function forwardedRoutes(
  forward: Forward,
  flowController: FlowController,
): readonly Route[] {
  const context = createOperationContext(flowController, NO_SERVICES, seededChance(3));
  return gatewayRoutes(forward, seededChance(1), unreadHandlers(context));
}

/** The endpoints of a flow controller, each as a function from a message to the decoded reply. */
export function endpointsOf(
  flowController: FlowController,
  lookup: ServiceLookup = NO_SERVICES,
  context?: OperationContext,
) {
  const own = context ?? createOperationContext(flowController, lookup, seededChance(3));
  const all = grpcServices(own, NO_RECORDS);
  const json = httpRoutes(own, NO_RECORDS);
  const ask = async (path: string, body: unknown, call?: Call) => {
    const reply = await post(json, path, body, call);
    return JSON.parse(String(reply.body));
  };
  return {
    services: all,
    routes: json,
    async proxy(init: MessageInitShape<typeof AuthRequestSchema>, call: Call = callOf()) {
      const bytes = toBinary(AuthRequestSchema, create(AuthRequestSchema, init));
      const reply = await handlerOf(all, AUTHORIZATION_SERVICE, "Check")(bytes, call);
      return fromBinary(AuthResponseSchema, reply);
    },
    async checkHttp(init: MessageInitShape<typeof CheckHTTPRequestSchema>, call: Call = callOf()) {
      const bytes = toBinary(CheckHTTPRequestSchema, create(CheckHTTPRequestSchema, init));
      const reply = await handlerOf(all, CHECK_HTTP_SERVICE, "CheckHTTP")(bytes, call);
      return fromBinary(CheckHTTPResponseSchema, reply);
    },
    async check(init: MessageInitShape<typeof CheckRequestSchema>, call: Call = callOf()) {
      const bytes = toBinary(CheckRequestSchema, create(CheckRequestSchema, init));
      const reply = await handlerOf(all, CHECK_SERVICE, "Check")(bytes, call);
      return fromBinary(CheckResponseSchema, reply);
    },
    async flowEnd(init: MessageInitShape<typeof FlowEndRequestSchema>, call: Call = callOf()) {
      const bytes = toBinary(FlowEndRequestSchema, create(FlowEndRequestSchema, init));
      const reply = await handlerOf(all, CHECK_SERVICE, "FlowEnd")(bytes, call);
      return fromBinary(FlowEndResponseSchema, reply);
    },
    checkHttpJson: (body: unknown, call?: Call) => ask("/v1/flowcontrol/checkhttp", body, call),
    checkJson: (body: unknown, call?: Call) => ask("/v1/flowcontrol/check", body, call),
    flowEndJson: (body: unknown, call?: Call) => ask("/v1/flowcontrol/flowend", body, call),
  };
}

/** The check response that a proxy gets as metadata. */
export function embedded(metadata: unknown) {
  const [text] = Object.values(Object(metadata));
  return fromBinary(CheckResponseSchema, Buffer.from(String(text), "base64"));
}

/** A flow controller that judges by these rules, on a fake clock. */
export function agentOf(rules: readonly (readonly [Rule, LimiterNumbers?])[]) {
  const clock = fakeClock();
  const observer = recordingObserver();
  const world = { clock, chance: seededChance(5), observer, maxKeys: 10_000 };
  const book = new Rulebook("default", world);
  const faults = book.apply({
    rules: new Map(rules.map(([rule], at) => [String(at), rule])),
    numbers: new Map(rules.flatMap(([, numbers], at) => (numbers ? [[String(at), numbers]] : []))),
  });
  if (faults.length > 0) throw new Error("a rule was refused");
  return { clock, observer, flowController: createFlowController(book, world) };
}
