// Replies for a transport that copies them immediately share one buffer. All other replies, and those of checks
// that waited, have their own memory for good.

import assert from "node:assert/strict";
import { connect } from "node:net";
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
import { readAll } from "../../kit/sluice/port.ts";
import { standalone } from "../../kit/sluice/standalone.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");

const SLOW = "/slow";

function requestTo(path: string, more: Readonly<Record<string, string>> = {}): Uint8Array {
  const headers = { "user-id": "ann", ...more };
  const attributes = { request: { http: { method: "GET", path, headers } } };
  return toBinary(CheckRequestSchema, create(CheckRequestSchema, { attributes }));
}

/** An ext_authz handler whose checks of SLOW wait until the test settles them. */
function slowHandler() {
  const { flowController } = agentOf([[perUser, threeEach]]);
  const waiting: (() => void)[] = [];
  const judged = new Set<Flow>();
  const judge = (flow: Flow) => {
    judged.add(flow);
    if (
      flow.labels.get({ name: "http.path", slot: 0, header: undefined, baggage: false }) !== SLOW
    ) {
      return flowController.judge(flow);
    }
    const pending = new Pending<Verdict>();
    waiting.push(() => {
      const verdict = flowController.judge(flow);
      assert.ok(!(verdict instanceof Pending));
      pending.settle(verdict);
    });
    return pending;
  };
  const handle = extAuthz(
    createOperationContext({ ...flowController, judge }, NO_SERVICES, seededChance(3)),
  );
  return { waiting, judged, handle };
}

const copying = () => callOf(CP, { copiesReply: true });

it("replies that are copied immediately share one buffer", async () => {
  const { handle } = slowHandler();
  const first = await handle(requestTo("/first"), copying());
  const said = Buffer.from(first);
  const second = await handle(requestTo("/other"), copying());
  assert.equal(second.buffer, first.buffer);
  assert.equal(second.byteOffset, first.byteOffset);
  assert.notDeepEqual(Buffer.from(second), said);
  // The reply names every label, and bounds only their values.
  const long = await handle(requestTo("/", { ["x".repeat(40_000)]: "" }), copying());
  assert.ok(long.length > 50_000);
  const { handle: other } = slowHandler();
  assert.deepEqual(said, Buffer.from(await other(requestTo("/first"), callOf(CP))));
});

it("other replies, and those of checks that waited, have their own memory", async () => {
  const { handle, waiting } = slowHandler();
  const slow = handle(requestTo(SLOW), copying());
  const kept = await handle(requestTo("/kept"), callOf(CP));
  await handle(requestTo("/lent"), copying());
  for (const settle of waiting) settle();
  const late = await slow;
  const said = [kept, late].map((reply) => Buffer.from(reply));
  for (const path of ["/a", "/bb", "/ccc"]) await handle(requestTo(path), copying());
  assert.deepEqual(
    [kept, late].map((reply) => Buffer.from(reply)),
    said,
  );
});

it("a check whose reply is written keeps nothing of its call", async () => {
  const { handle, waiting, judged } = slowHandler();
  const slow = handle(requestTo(SLOW), copying());
  await handle(requestTo("/"), copying());
  const peers = () => [...judged].map(({ peer }) => peer);
  assert.deepEqual(peers(), ["127.0.0.1", ""]);
  for (const settle of waiting) settle();
  await slow;
  assert.deepEqual(peers(), ["", ""]);
});

const PATH = "/v1/flowcontrol/checkhttp";

/** The reply says which check it answers. */
const described = (path: string) =>
  Buffer.from(JSON.stringify({ control_point: "here", request: { method: "GET", path } }));

function jsonDoor() {
  const { flowController } = agentOf([[perUser, threeEach]]);
  const handle = checkHttpJson(
    createOperationContext(flowController, NO_SERVICES, seededChance(3)),
  );
  const request = { method: "POST", path: PATH, query: new URLSearchParams(), params: {} };
  return async (path: string, copiesReply?: boolean) => {
    const call = callOf({}, copiesReply === undefined ? {} : { copiesReply });
    const { body } = await handle({ ...request, headers: {}, body: described(path) }, call);
    assert.ok(body instanceof Uint8Array);
    return body;
  };
}

it("JSON replies share one buffer only when they are copied immediately", async () => {
  const ask = jsonDoor();
  const lent = [await ask("/first", true), await ask("/other", true)];
  assert.equal(lent[0]?.buffer, lent[1]?.buffer);
  for (const copiesReply of [undefined, false]) {
    const kept = [await ask("/first", copiesReply), await ask("/other", copiesReply)];
    await ask("/third", copiesReply);
    await ask("/lent", true);
    const targets = kept.map((reply) => {
      const { check_response } = JSON.parse(Buffer.from(reply).toString());
      return check_response.telemetry_flow_labels["http.target"];
    });
    assert.deepEqual(targets, ["/first", "/other"]);
  }
});

it("replies queued behind others of their connection are not overwritten", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const paths = Array.from({ length: 20 }, (_, at) => `/${String(at).padStart(2, "0")}`);
  const requests = paths.map((path, at) => {
    const body = described(path);
    const last = at === paths.length - 1 ? "connection: close\r\n" : "";
    // Only Node's server takes it, which keeps replies until those before them have left.
    const head = `POST ${PATH} HTTP/1.1\r\nhost: a\r\nte: trailers\r\n${last}`;
    const type = `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    return `${head}${type}${body.toString()}`;
  });
  const [host = "", port] = address.split(":");
  const socket = connect({ host, port: Number(port) });
  t.after(() => socket.destroy());
  socket.write(requests.join(""));
  const replies = String(await readAll(socket));
  const targets = [...replies.matchAll(/"http\.target":"([^"]+)"/g)].map(([, path]) => path);
  assert.deepEqual(targets, paths);
});
