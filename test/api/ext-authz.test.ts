// The proxy's door reads a request where its bytes lie and uses its objects again: nothing of one check may
// be seen in another, however long either waits.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { doorOf } from "#api/door.ts";
import { extAuthz } from "#api/ext-authz.ts";
import { NO_SERVICES, type ServiceLookup } from "#api/services.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, type Verdict } from "#flow/flow.ts";
import type { Mind } from "#flow/mind.ts";
import {
  CheckRequestSchema,
  CheckResponseSchema,
} from "../../src/wire/gen/envoy/service/auth/v3/external_auth_pb.ts";
import { agentOf, callOf, embedded } from "./agent.ts";
import { CP, perUser, threeEach } from "./corpus.ts";

/** A mind whose verdicts on what is asked while it is `slow` wait until they are called for. */
function slowMind() {
  const waiting: (() => void)[] = [];
  const { mind } = agentOf([[perUser, threeEach]]);
  const pace = { slow: true };
  const judge = (flow: Flow) => {
    if (!pace.slow) return mind.judge(flow);
    const pending = new Pending<Verdict>();
    waiting.push(() => {
      const judged = mind.judge(flow);
      assert.ok(!(judged instanceof Pending));
      pending.settle(judged);
    });
    return pending;
  };
  return { mind: { ...mind, judge }, waiting, pace };
}

function requestOf(path: string, user: string, from = "10.0.0.9"): Uint8Array {
  const address = { case: "socketAddress" as const, value: { address: from } };
  return toBinary(
    CheckRequestSchema,
    create(CheckRequestSchema, {
      attributes: {
        source: { address: { address } },
        request: { http: { method: "GET", path, headers: { "user-id": user } } },
      },
    }),
  );
}

/** The proxy's door alone; its handler takes the message and gives the reply undecoded. */
function doorThat(mind: Mind, lookup: ServiceLookup = NO_SERVICES) {
  const handle = extAuthz(doorOf(mind, lookup, seededChance(3)));
  return (message: Uint8Array) => handle(message, callOf(CP));
}

const metadataOf = (reply: Uint8Array) => fromBinary(CheckResponseSchema, reply).dynamicMetadata;

function said(reply: Uint8Array) {
  const { telemetryFlowLabels, limiterDecisions } = embedded(metadataOf(reply));
  const details = limiterDecisions[0]?.details;
  const label = details?.case === "rateLimiterInfo" ? details.value.label : undefined;
  return [telemetryFlowLabels["http.target"], label];
}

const expected = (user: string) => [`/${user}`, `http.request.header.user_id:${user}`];

describe("the proxy's check whose verdict comes later", () => {
  it("mixes with no other, neither one that waits too nor one that does not", async () => {
    const { mind, waiting, pace } = slowMind();
    const check = doorThat(mind);
    const ask = (user: string) => check(requestOf(`/${user}`, user));
    // What the first leaves behind may be used again by one of the others, but by no more than one.
    pace.slow = false;
    const asked = [ask("eve")];
    pace.slow = true;
    asked.push(ask("ann"), ask("bob"));
    pace.slow = false;
    asked.push(ask("fay"));
    pace.slow = true;
    asked.push(ask("cid"), ask("dan"));
    assert.equal(waiting.length, 4);
    for (const settle of waiting.reverse()) settle();
    const replies = (await Promise.all(asked)).map(said);
    assert.deepEqual(replies, ["eve", "ann", "bob", "fay", "cid", "dan"].map(expected));
  });

  it("is read from a copy of its bytes, which the caller may overwrite while it waits", async () => {
    const { mind, waiting } = slowMind();
    const check = doorThat(mind);
    const message = requestOf("/ann", "ann");
    const reply = check(message);
    message.fill(0x78);
    for (const settle of waiting) settle();
    assert.deepEqual(said(await reply), expected("ann"));
  });
});

describe("the proxy's checks that have the same headers", () => {
  it("each name the services of their own source, whichever was known before", async () => {
    const lookup: ServiceLookup = {
      byAddress: (address) => (address === "10.0.0.1" ? ["a.svc"] : []),
    };
    const known = requestOf("/x", "ann", "10.0.0.1");
    const unknown = requestOf("/x", "ann", "10.0.0.2");
    const fresh = () => doorThat(agentOf([]).mind, lookup);
    const alone = { known: await fresh()(known), unknown: await fresh()(unknown) };
    const sourceOf = (reply: Uint8Array) =>
      embedded(metadataOf(reply)).telemetryFlowLabels["aperture.source_fqdns"];
    assert.equal(sourceOf(alone.known), "a.svc");
    assert.notEqual(sourceOf(alone.unknown), "a.svc");
    for (const order of [
      ["known", "unknown", "known"],
      ["unknown", "known", "unknown"],
    ] as const) {
      const check = fresh();
      for (const which of order) {
        const reply = await check(which === "known" ? known : unknown);
        // To the byte: a label that is there twice is not seen once it is decoded.
        assert.deepEqual(metadataOf(reply), metadataOf(alone[which]), order.join());
      }
    }
  });
});
