// Complete replies: each is built again in the form of both protobuf libraries, which must read our bytes as that
// message and encode it to the same bytes.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import type { ReportedDecision } from "#wire/check/decisions/reported-decision.ts";
import { type HttpAnswer, HttpAnswerWriter, METADATA_KEY } from "#wire/check/http-reply.ts";
import { writePair } from "#wire/check/request-writer.ts";
import {
  type CacheAnswer,
  type CheckReply,
  type FlowEndReply,
  TELEMETRY_ENTRY,
  type TelemetryWriter,
  writeFlowEndResponse,
} from "#wire/check/response.ts";
import { Fragment } from "#wire/protobuf/base64.ts";
import { schemaOf } from "#wire/protobuf/descriptors.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { definitions } from "../../kit/messages/definitions.ts";
import { assertTwice } from "../../kit/properties/twice.ts";
import { answer, type FullDecision, flowEnds, reply } from "./replies.ts";

const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const FlowEndResponseSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndResponse");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
const AuthResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

/** The fields of `google.protobuf.Timestamp` and `Duration`. */
function time(ms: number) {
  const nanos = BigInt(Math.round((ms % 1_000) * 1e6));
  const seconds = BigInt((ms - (ms % 1_000)) / 1_000) + nanos / 1_000_000_000n;
  return { seconds, nanos: Number(nanos % 1_000_000_000n) };
}

/** The member of the oneof for the component's kind. */
function detailsOf({ component, detail }: FullDecision) {
  const { label, requestId, remaining, current, consumed, workload, priority } = detail;
  const tokensInfo = { remaining, current, consumed };
  const tokens = priority > 0 ? { tokensInfo } : {};
  const scheduled = { label, workloadIndex: workload, ...tokens, priority };
  switch (component.kind) {
    case "rate_limiter":
      return { case: "rateLimiterInfo" as const, value: { label, tokensInfo } };
    case "concurrency_limiter":
      return { case: "concurrencyLimiterInfo" as const, value: { label, tokensInfo, requestId } };
    case "sampler":
    case "ramp_sampler":
      return { case: "samplerInfo" as const, value: { label } };
    case "load_scheduler":
      return {
        case: "loadSchedulerInfo" as const,
        value: { workloadIndex: label, tokensInfo, priority },
      };
    case "quota_scheduler":
      return { case: "quotaSchedulerInfo" as const, value: scheduled };
    case "concurrency_scheduler":
      return { case: "concurrencySchedulerInfo" as const, value: { ...scheduled, requestId } };
  }
}

const MISSING: Readonly<Record<number, string>> = { 2: "key", 4: "tokens", 6: "key,tokens" };

function decisionOf(decision: ReportedDecision) {
  const { policyName, policyHash, componentId, deniedStatus } = decision.component;
  return {
    policyName,
    policyHash,
    componentId,
    dropped: decision.dropped,
    reason: decision.missing === 1 ? 1 : 0,
    deniedResponseStatusCode: deniedStatus,
    ...(decision.waitMs < 0 ? {} : { waitTime: time(decision.waitMs) }),
    details: detailsOf(decision as FullDecision),
    ...(decision.failure === undefined ? {} : { failureMode: decision.failure }),
    ...(decision.missing < 2 ? {} : { missingLabels: MISSING[decision.missing] }),
  };
}

function cachedOf({ missed, error }: CacheAnswer) {
  return { lookupStatus: missed ? 1 : 0, operationStatus: error === "" ? 0 : 1, error };
}

function cacheOf({ result, global }: NonNullable<CheckReply["cache"]>) {
  const entries = [...global].map(([key, cached]) => [key, cachedOf(cached)] as const);
  return {
    ...(result === undefined ? {} : { resultCacheResponse: cachedOf(result) }),
    globalCacheResponses: Object.fromEntries(entries),
  };
}

type Pair = readonly [name: string, value: string];

function checkOf(given: CheckReply, more: readonly Pair[] = []) {
  const { telemetry } = given;
  const pairs = telemetry.flatMap((name, at): Pair[] =>
    at % 2 === 0 ? [[name, telemetry[at + 1] ?? ""]] : [],
  );
  return {
    start: time(given.start),
    end: time(given.end),
    services: [...given.services],
    controlPoint: given.controlPoint,
    flowLabelKeys: [...given.keys.keys],
    telemetryFlowLabels: Object.fromEntries([...more, ...pairs]),
    decisionType: given.accepted ? 0 : 1,
    rejectReason: given.reason,
    classifierInfos: given.classifiers.map(({ classifierIndex, ...rest }) => ({
      ...rest,
      classifierIndex: BigInt(classifierIndex),
    })),
    fluxMeterInfos: given.fluxMeters.map((fluxMeterName) => ({ fluxMeterName })),
    limiterDecisions: given.decisions.map(decisionOf),
    ...(given.waitMs > 0 ? { waitTime: time(given.waitMs) } : {}),
    deniedResponseStatusCode: given.deniedStatus,
    ...(given.cache === undefined ? {} : { cacheLookupResponse: cacheOf(given.cache) }),
    expectEnd: given.expectEnd,
    ...(given.reservationId === "" ? {} : { reservationId: given.reservationId }),
  };
}

/** Base64 of the check as the library writes it, under its key. */
function metadataOf(check: ReturnType<typeof checkOf>) {
  const bytes = toBinary(CheckResponseSchema, messageOf(CheckResponseSchema, check));
  return { [METADATA_KEY]: Buffer.from(bytes).toString("base64") };
}

function statusOf({ check, refusal }: HttpAnswer) {
  return check.accepted ? { code: 0 } : { code: 14, message: refusal };
}

function authOf(given: HttpAnswer, more: readonly Pair[]) {
  const { check, deniedStatus, retryAfter, baggage } = given;
  const option = (key: string, value: string) => [{ header: { key, value }, append: false }];
  const headers = retryAfter > 0 ? option("retry-after", String(retryAfter)) : [];
  const denied = { status: { code: deniedStatus }, headers };
  const ok = { headers: baggage === undefined ? [] : option("baggage", baggage) };
  return {
    status: statusOf(given),
    httpResponse: check.accepted
      ? { case: "okResponse" as const, value: ok }
      : { case: "deniedResponse" as const, value: denied },
    dynamicMetadata: metadataOf(checkOf(check, more)),
  };
}

function checkHttpOf(given: HttpAnswer) {
  const { deniedStatus: status, retryAfter, baggage } = given;
  const check = checkOf(given.check);
  const headers = retryAfter > 0 ? { "retry-after": String(retryAfter) } : {};
  return {
    status: statusOf(given),
    httpResponse: given.check.accepted
      ? {
          case: "okResponse" as const,
          value: { headers: baggage === undefined ? {} : { baggage } },
        }
      : { case: "deniedResponse" as const, value: { status, headers } },
    checkResponse: check,
    dynamicMetadata: metadataOf(check),
  };
}

function flowEndOf({ slots, settlement }: FlowEndReply) {
  return {
    tokenReturnStatuses: slots.map(({ ref, ...rest }) => ({ inflightRequestRef: ref, ...rest })),
    ...(settlement && { settled: settlement.settled }),
    ...(settlement?.error && { settlementError: settlement.error }),
  };
}

/** The same for protobufjs: arms of a oneof are ordinary fields, wrappers and structs are plain messages. */
function loose(init: unknown): unknown {
  if (Array.isArray(init)) return init.map(loose);
  if (typeof init !== "object" || init === null) return init;
  const entries = Object.entries(init).map(([name, value]) => {
    if (name === "details" || name === "httpResponse") return [value.case, loose(value.value)];
    if (name === "append") return [name, { value }];
    if (name !== "dynamicMetadata") return [name, loose(value)];
    return [name, { fields: { [METADATA_KEY]: { stringValue: value[METADATA_KEY] } } }];
  });
  return Object.fromEntries(entries);
}

/** Enum numbers are written as they are, known or not. */
function messageOf<Desc extends DescMessage>(schema: Desc, wanted: object) {
  return create(schema, wanted as MessageInitShape<Desc>);
}

function assertSays<Desc extends DescMessage>(
  schema: Desc,
  bytes: Uint8Array,
  wanted: object,
): void {
  const message = messageOf(schema, wanted);
  assert.deepEqual(fromBinary(schema, bytes), message);
  const library = Buffer.from(toBinary(schema, message));
  assert.equal(bytes.length, library.length, "nothing is longer than it need be");
  // Ours has its fields 4 and 5 the other way round: the metadata is made last of all.
  if (schema.typeName !== CheckHTTPResponseSchema.typeName) assert.deepEqual(bytes, library);
  const type = definitions.type(schema.typeName);
  const plain = (read: Uint8Array) =>
    type.toObject(type.decode(read), { defaults: true, longs: BigInt, enums: Number });
  const others = type.encode(type.fromObject(Object(loose(wanted)))).finish();
  assert.deepEqual(plain(bytes), plain(others));
}

/** Labels of an endpoint, with names that no label of a reply has. */
const pairs = (prefix: string): fc.Arbitrary<Pair[]> =>
  fc
    .array(fc.string({ unit: "grapheme", maxLength: 40 }), { maxLength: 3 })
    .map((values) => values.map((value, at): Pair => [`label.${prefix}.${at}`, value]));

function telemetryOf(fixed: readonly Pair[], others: readonly Pair[]): TelemetryWriter {
  const write = (out: ProtoWriter, all: readonly Pair[]) => {
    for (const [name, value] of all) writePair(out, TELEMETRY_ENTRY, name, value);
  };
  const out = new ProtoWriter();
  write(out, fixed);
  return { fixed: new Fragment(out.copy()), writeTelemetry: (to) => write(to, others) };
}

describe("whole replies, as both libraries read and write them", () => {
  const writer = new HttpAnswerWriter();

  it("CheckResponse", () => {
    fc.assert(
      fc.property(reply, (given) =>
        assertSays(CheckResponseSchema, writer.writeCheck(given), checkOf(given)),
      ),
      { numRuns: 200 },
    );
  });

  it("Envoy's CheckResponse, lent or not, with or without labels of the request", () => {
    const seen = new Set<string>();
    assertTwice(
      fc.property(
        answer,
        pairs("fixed"),
        pairs("own"),
        fc.boolean(),
        (given, fixed, others, lent) => {
          assertSays(
            AuthResponseSchema,
            writer.writeAuth(given, undefined, lent),
            authOf(given, []),
          );
          const telemetry = telemetryOf(fixed, others);
          const wanted = authOf(given, [...fixed, ...others]);
          assertSays(AuthResponseSchema, writer.writeAuth(given, telemetry, lent), wanted);
          assertSays(AuthResponseSchema, writer.writeAuth(given, telemetry, !lent), wanted);
          const { accepted } = given.check;
          const header = accepted ? given.baggage !== undefined : given.retryAfter > 0;
          seen.add(`${accepted} ${header}`);
        },
      ),
      200,
    );
    assert.equal(seen.size, 4, "accepted and denied, with a header and without");
  });

  it("CheckHTTPResponse", () => {
    fc.assert(
      fc.property(answer, (given) =>
        assertSays(CheckHTTPResponseSchema, writer.writeCheckHttp(given), checkHttpOf(given)),
      ),
      { numRuns: 200 },
    );
  });

  it("FlowEndResponse", () => {
    fc.assert(
      fc.property(flowEnds, (given) =>
        assertSays(FlowEndResponseSchema, writeFlowEndResponse(given), flowEndOf(given)),
      ),
    );
  });
});

describe("a reply that is lent", () => {
  it("reuses the memory of the previous one, also after one that was too large to keep", () => {
    const [first, second] = fc.sample(answer, { numRuns: 2, seed: 3 });
    assert.ok(first !== undefined && second !== undefined);
    const writer = new HttpAnswerWriter();
    const { buffer } = writer.writeAuth(first, undefined, true);
    assert.equal(writer.writeAuth(second, undefined, true).buffer, buffer);
    assert.notEqual(writer.writeAuth(second).buffer, buffer);
    const huge = { ...first, check: { ...first.check, controlPoint: "x".repeat(400_000) } };
    assertSays(AuthResponseSchema, writer.writeAuth(huge, undefined, true), authOf(huge, []));
    const after = writer.writeAuth(second, undefined, true);
    assertSays(AuthResponseSchema, after, authOf(second, []));
    assert.ok(after.buffer.byteLength < 300_000, "the large buffer was released");
  });
});
