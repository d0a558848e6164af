// A transport that copies replies at once may be lent them: then they all lie in the same memory. To every
// other, and to a check that waited, each reply is its own for ever.

import assert from "node:assert/strict";
import { it } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { doorOf } from "#api/door.ts";
import { extAuthz } from "#api/ext-authz.ts";
import { NO_SERVICES } from "#api/services.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import { CheckRequestSchema } from "../../src/wire/gen/envoy/service/auth/v3/external_auth_pb.ts";
import { agentOf, callOf } from "./agent.ts";
import { CP, perUser, threeEach } from "./corpus.ts";

const SLOW = "/slow";

function requestTo(path: string): Uint8Array {
  const attributes = { request: { http: { method: "GET", path, headers: { "user-id": "ann" } } } };
  return toBinary(CheckRequestSchema, create(CheckRequestSchema, { attributes }));
}

function doorThatWaits() {
  const { mind } = agentOf([[perUser, threeEach]]);
  const waiting: (() => void)[] = [];
  const judge = (flow: Flow) => {
    if (flow.labels.get({ name: "http.path", slot: 0, header: undefined }) !== SLOW) {
      return mind.judge(flow);
    }
    const pending = new Pending<Verdict>();
    waiting.push(() => {
      const judged = mind.judge(flow);
      assert.ok(!(judged instanceof Pending));
      pending.settle(judged);
    });
    return pending;
  };
  const handle = extAuthz(doorOf({ ...mind, judge }, NO_SERVICES, seededChance(3)));
  return { waiting, handle };
}

const copying = () => callOf(CP, { copiesReply: true });

it("replies that are copied at once lie in the same memory", async () => {
  const { handle } = doorThatWaits();
  const first = await handle(requestTo("/first"), copying());
  const said = Buffer.from(first);
  const second = await handle(requestTo("/other"), copying());
  assert.equal(second.buffer, first.buffer);
  assert.equal(second.byteOffset, first.byteOffset);
  assert.notDeepEqual(Buffer.from(second), said);
  const long = await handle(requestTo(`/${"x".repeat(20_000)}`), copying());
  assert.ok(long.length > 50_000);
  const { handle: other } = doorThatWaits();
  assert.deepEqual(said, Buffer.from(await other(requestTo("/first"), callOf(CP))));
});

it("other replies, and those of checks that waited, are nobody else's", async () => {
  const { handle, waiting } = doorThatWaits();
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
