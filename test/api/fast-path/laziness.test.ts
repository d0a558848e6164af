// Work that a check avoids: decoding strings that no rule reads, and encoding again what is the same in every reply
// of a plan.

import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { createOperationContext } from "#api/context.ts";
import { extAuthz } from "#api/ext-authz.ts";
import { NO_SERVICES } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import { JsonWriter } from "#wire/json/writer.ts";
import type { Fragment } from "#wire/protobuf/base64.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { agentOf, callOf, endpointsOf } from "../../kit/api/agent.ts";
import { CP, perUser, threeEach } from "../../kit/api/corpus.ts";

const CheckRequestSchema = schemaOf("envoy.service.auth.v3.CheckRequest");

/** A request in which every field has a different value, so that a decoded string shows which field was read. */
function requestOf(round: number): Uint8Array {
  const http = {
    id: `id-${round}`,
    method: `METHOD-${round}`,
    path: `/path-${round}`,
    size: BigInt(round),
    host: `host-${round}`,
    scheme: `scheme-${round}`,
    protocol: `protocol-${round}`,
    body: `body-${round}`,
    headers: {
      "user-id": `user-${round}`,
      "x-long": `long-${round}-`.padEnd(60, "x"),
      accept: `accept-${round}`,
    },
  };
  const address = { case: "socketAddress" as const, value: { address: `10.0.0.${round}` } };
  const attributes = {
    source: { address: { address } },
    destination: { address: { address } },
    contextExtensions: { ...CP, other: `other-${round}` },
    request: { http },
  };
  return toBinary(CheckRequestSchema, create(CheckRequestSchema, { attributes }));
}

const DECODERS = ["toString", "utf8Slice", "latin1Slice", "asciiSlice"] as const;

/** The strings that `work` decoded from bytes, by whatever means. */
function stringsDecodedBy(work: () => unknown): readonly string[] {
  const made: string[] = [];
  const note = (text: unknown) => {
    if (typeof text === "string" && text !== "") made.push(text);
    return text;
  };
  const spies = DECODERS.map((name) => {
    const original: unknown = Reflect.get(Buffer.prototype, name);
    assert.ok(typeof original === "function", name);
    return mock.method(
      Buffer.prototype,
      name as "toString",
      function (this: Buffer, ...given: unknown[]) {
        return note(Reflect.apply(original, this, given)) as string;
      },
    );
  });
  const { fromCharCode } = String;
  const { decode } = TextDecoder.prototype;
  spies.push(
    mock.method(String, "fromCharCode", (...units: number[]) => note(fromCharCode(...units))),
    mock.method(TextDecoder.prototype, "decode", function (this: TextDecoder, bytes: Buffer) {
      return note(decode.call(this, bytes));
    }),
  );
  try {
    work();
  } finally {
    for (const { mock: spy } of spies) spy.restore();
  }
  return [...new Set(made)];
}

/** An ext_authz handler whose agent limits by one header, after it has handled similar requests. */
function warmHandler(call = callOf({}, { copiesReply: true })) {
  const { flowController } = agentOf([[perUser, threeEach]]);
  const handle = extAuthz(createOperationContext(flowController, NO_SERVICES, seededChance(3)));
  for (let round = 1; round < 5; round++) void handle(requestOf(round), call);
  return (message: Uint8Array) => handle(message, call);
}

describe("an ext_authz check", () => {
  it("decodes only the control point and the header that a rule reads", () => {
    const ask = warmHandler();
    const message = requestOf(7);
    assert.deepEqual([...stringsDecodedBy(() => ask(message))].sort(), ["here", "user-7"]);
  });

  it("does not decode the control point when the call's metadata names it", () => {
    const ask = warmHandler(callOf(CP, { copiesReply: true }));
    const message = requestOf(7);
    assert.deepEqual(
      stringsDecodedBy(() => ask(message)),
      ["user-7"],
    );
  });

  it("is caught when it does decode strings", () => {
    const ask = warmHandler();
    // The path is not ASCII, so the reply's writer has to decode it.
    const http = { path: "/é", headers: { "user-id": "ann", new: "" } };
    const attributes = { request: { http }, contextExtensions: CP };
    const message = toBinary(CheckRequestSchema, create(CheckRequestSchema, { attributes }));
    const made = stringsDecodedBy(() => ask(message));
    for (const text of ["/é", "ann", "new"]) assert.ok(made.includes(text), made.join());
  });
});

/** A rule and its numbers with a policy hash, to tell the replies of two plans apart. */
function planOf(policyHash: string) {
  const rule = { ...perUser, policyHash };
  return [rule, { ...threeEach, policyHash }] as const;
}

/** The pre-encoded fragments that replies are assembled from while `work` runs. */
async function fragmentsOf(work: () => unknown): Promise<ReadonlySet<Fragment>> {
  const spy = mock.method(ProtoWriter.prototype, "fragment");
  try {
    await work();
    return new Set(spy.mock.calls.map(({ arguments: [fragment] }) => fragment));
  } finally {
    spy.mock.restore();
  }
}

async function piecesOf(work: () => unknown): Promise<ReadonlySet<Uint8Array>> {
  const spy = mock.method(JsonWriter.prototype, "raw");
  try {
    await work();
    return new Set(spy.mock.calls.map(({ arguments: [piece] }) => piece));
  } finally {
    spy.mock.restore();
  }
}

const holding = (pieces: Iterable<Uint8Array>, text: string) =>
  [...pieces].filter((piece) => Buffer.from(piece).includes(text));

describe("what is the same in every reply of a plan", () => {
  const context = createOperationContext(agentOf([]).flowController, NO_SERVICES, seededChance(3));
  const over = (hash: string) => ({
    ...context,
    flowController: agentOf([planOf(hash)]).flowController,
  });

  it("is encoded once per plan", async () => {
    const first = extAuthz(over("hash-one"));
    const second = extAuthz(over("hash-two"));
    const ask = (handle: typeof first, round: number) =>
      fragmentsOf(() => handle(requestOf(round), callOf(CP)));
    const one = await ask(first, 1);
    // The component's names, and the label keys with what follows them.
    assert.equal(one.size, 2);
    assert.deepEqual(await ask(first, 2), one);
    for (const fragment of await ask(first, 3)) assert.ok(one.has(fragment), "encoded again");
    const other = await ask(second, 4);
    const bytes = (all: ReadonlySet<Fragment>) => [...all].map((each) => each.bytes);
    assert.equal(holding(bytes(one), "hash-one").length, 1);
    assert.equal(holding(bytes(other), "hash-two").length, 1);
    assert.equal(holding(bytes(other), "hash-one").length, 0);
    // Label keys do not belong to the plan, so their fragment is reused.
    assert.equal([...other].filter((fragment) => one.has(fragment)).length, 1);
  });

  it("is encoded once in JSON too", async () => {
    const body = (user: string) => ({
      control_point: "here",
      request: { method: "GET", headers: { "user-id": user } },
    });
    const firstContext = over("hash-one");
    const first = endpointsOf(firstContext.flowController, NO_SERVICES, firstContext);
    const secondContext = over("hash-two");
    const second = endpointsOf(secondContext.flowController, NO_SERVICES, secondContext);
    const one = await piecesOf(() => first.checkHttpJson(body("ann")));
    const again = await piecesOf(() => first.checkHttpJson(body("bob")));
    const other = await piecesOf(() => second.checkHttpJson(body("cid")));
    const known = holding(one, "hash-one");
    assert.ok(known.length > 0);
    for (const piece of holding(again, "hash-one")) assert.ok(known.includes(piece));
    assert.equal(holding(again, "hash-one").length, known.length);
    assert.equal(holding(other, "hash-one").length, 0);
    assert.equal(holding(other, "hash-two").length, known.length);
  });
});
