// Checks that wait: each has its own memory until it is answered, and is used again afterwards.

import assert from "node:assert/strict";
import { it } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { checkHttpJson } from "#api/check-http.ts";
import { createOperationContext } from "#api/context.ts";
import { extAuthz } from "#api/ext-authz.ts";
import { NO_SERVICES } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { agentOf, callOf } from "../../kit/api/agent.ts";
import { CP, perUser, threeEach } from "../../kit/api/corpus.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");

interface Waiting {
  readonly flow: Flow;
  settle(): void;
}

/** A context in which every check waits until the test settles it. */
function slowContext() {
  const { flowController } = agentOf([[perUser, threeEach]]);
  const waiting: Waiting[] = [];
  const judge = (flow: Flow) => {
    const pending = new Pending<Verdict>();
    const settle = () => {
      const judged = flowController.judge(flow);
      assert.ok(!(judged instanceof Pending));
      pending.settle(judged);
    };
    waiting.push({ flow, settle });
    return pending;
  };
  const context = createOperationContext(
    { ...flowController, judge },
    NO_SERVICES,
    seededChance(3),
  );
  return { context, waiting };
}

/** Asks about a path, from bytes that are overwritten as soon as the handler has returned. */
type Ask = (path: string) => Promise<string>;

/** The decoded base64 in a proxy's reply, at whichever of its letters it begins. */
function shownIn(reply: string): string {
  const letters = [...reply.matchAll(/[A-Za-z0-9+/]{100,}/g)].join("");
  return [0, 1, 2, 3].map((at) => Buffer.from(letters.slice(at), "base64").toString()).join("");
}

function proxyAsk(context: ReturnType<typeof slowContext>["context"]): Ask {
  const handle = extAuthz(context);
  return async (path) => {
    const attributes = {
      request: { http: { method: "GET", path, headers: { "user-id": "ann" } } },
    };
    const message = toBinary(CheckRequestSchema, create(CheckRequestSchema, { attributes }));
    const reply = handle(message, callOf(CP));
    message.fill(0x78);
    return shownIn(Buffer.from(await reply).toString("latin1"));
  };
}

function jsonAsk(context: ReturnType<typeof slowContext>["context"]): Ask {
  const handle = checkHttpJson(context);
  const path = "/v1/flowcontrol/checkhttp";
  const request = { method: "POST", path, query: new URLSearchParams(), params: {}, headers: {} };
  return async (path) => {
    const http = { method: "GET", path, headers: { "user-id": "ann" } };
    const body = Buffer.from(JSON.stringify({ control_point: "here", request: http }));
    const reply = handle({ ...request, body }, callOf({}));
    body.fill(0x78);
    return Buffer.from((await reply).body).toString();
  };
}

for (const [name, askOf] of [
  ["a proxy's", proxyAsk],
  ["a JSON", jsonAsk],
] as const) {
  it(`${name} check that waited is used again, once it is answered`, async () => {
    const { context, waiting } = slowContext();
    const ask = askOf(context);
    const paths = [
      "/one",
      `/${"long".repeat(500)}`,
      "/two",
      `/${"longer".repeat(1_000)}`,
      "/three",
    ];
    const replies = paths.map(ask);
    assert.equal(new Set(waiting.map(({ flow }) => flow)).size, paths.length, "none is shared");
    for (const { settle } of waiting.splice(0).reverse()) settle();
    const said = await Promise.all(replies);
    for (const [at, path] of paths.entries()) {
      assert.ok(said[at]?.includes(path.slice(0, 100)), path.slice(0, 10));
    }
    const first = ask("/four");
    const { flow } = waiting[0] ?? assert.fail();
    waiting.shift()?.settle();
    assert.match(await first, /\/four/);
    void ask("/five");
    assert.equal(waiting[0]?.flow, flow);
  });
}
