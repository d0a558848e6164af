import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fromBinary, isMessage, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { STATUS_NAMES } from "#base/http/status.ts";
import type { ReportedComponent } from "#wire/check/decisions/reported-decision.ts";
import { type HttpAnswer, HttpAnswerWriter, METADATA_KEY } from "#wire/check/http-reply.ts";
import { writeFlowEndResponse } from "#wire/check/response.ts";
import { flowEndJson, JsonAnswerWriter } from "#wire/check-json/response.ts";
import { registry, schemaOf } from "#wire/protobuf/descriptors.ts";
import { decode } from "#wire/protobuf/messages.ts";
import { toJson } from "#wire/protobuf/protojson.ts";
import { answer, components, decision, flowEnds, reply, text } from "./replies.ts";

const CheckResponseSchema = schemaOf("aperture.flowcontrol.check.v1.CheckResponse");
const FlowEndResponseSchema = schemaOf("aperture.flowcontrol.check.v1.FlowEndResponse");
const CheckHTTPResponseSchema = schemaOf("aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse");
const AuthResponseSchema = schemaOf("envoy.service.auth.v3.CheckResponse");

const proto = new HttpAnswerWriter();
const json = new JsonAnswerWriter();

describe("writing CheckResponse", () => {
  it("writes canonical bytes, and the same JSON as the library", () => {
    fc.assert(
      fc.property(reply, (given) => {
        const bytes = proto.writeCheck(given);
        const message = fromBinary(CheckResponseSchema, bytes);
        assert.deepEqual(Buffer.from(toBinary(CheckResponseSchema, message)), bytes);
        assert.deepEqual(
          JSON.parse(json.check(given).toString()),
          toJson(CheckResponseSchema, message),
        );
      }),
      { numRuns: 300 },
    );
  });

  it("is read correctly by protobufjs", () => {
    fc.assert(
      fc.property(reply, (given) => {
        const name = "aperture.flowcontrol.check.v1.CheckResponse";
        const read = decode(name, proto.writeCheck(given));
        assert.equal(read.controlPoint, given.controlPoint);
        assert.deepEqual(read.flowLabelKeys, given.keys.keys);
        assert.deepEqual(read.services, given.services);
        assert.equal(read.limiterDecisions.length, given.decisions.length);
        given.decisions.forEach((want, at) => {
          const got = read.limiterDecisions[at];
          assert.equal(got?.componentId, want.component.componentId);
          // That library reads an unknown number of an enum as 0.
          const { deniedStatus } = want.component;
          assert.equal(
            got?.deniedResponseStatusCode,
            deniedStatus in STATUS_NAMES ? deniedStatus : 0,
          );
          assert.equal(got?.dropped, want.dropped);
          const limiter = got?.rateLimiterInfo ?? got?.concurrencyLimiterInfo ?? got?.samplerInfo;
          const scheduler = got?.quotaSchedulerInfo ?? got?.concurrencySchedulerInfo;
          const info = limiter ?? scheduler;
          // The label of a load scheduler is the workload.
          const label = info === undefined ? got?.loadSchedulerInfo?.workloadIndex : info.label;
          assert.equal(label, want.detail.label);
          assert.equal(scheduler?.workloadIndex ?? want.detail.workload, want.detail.workload);
          assert.equal(
            got?.concurrencyLimiterInfo?.tokensInfo?.consumed ?? want.detail.consumed,
            want.detail.consumed,
          );
          assert.equal(
            got?.rateLimiterInfo?.tokensInfo?.remaining ?? want.detail.remaining,
            want.detail.remaining,
          );
        });
      }),
    );
  });

  it("writes the same label whether or not the decision separates its value", () => {
    const prefixes = new Map<ReportedComponent, string | undefined>(
      components.map((component, at) => [component, ["key:", "é:", ""][at % 3]]),
    );
    const split = fc.record({ decision, value: fc.oneof(text, fc.constant("")) });
    fc.assert(
      fc.property(reply, fc.array(split, { minLength: 1, maxLength: 4 }), (given, splits) => {
        const labelled = splits.map(({ decision: one, value }) => {
          const label = `${prefixes.get(one.component)}${value}`;
          const { detail } = one;
          return {
            whole: { ...one, detail: { ...detail, label } },
            parts: { ...one, detail: { ...detail, label, value } },
          };
        });
        const parts = proto.writeCheck({ ...given, decisions: labelled.map((each) => each.parts) });
        const whole = proto.writeCheck({ ...given, decisions: labelled.map((each) => each.whole) });
        assert.deepEqual(parts, whole);
      }),
    );
  });

  it("names every status like the enum", () => {
    const known = (registry.getEnum("aperture.flowcontrol.check.v1.StatusCode")?.values ?? []).map(
      ({ number, name }) => [String(number), name],
    );
    assert.deepEqual(Object.entries(STATUS_NAMES), known);
  });

  it("writes timestamps and durations with 0, 3, 6 or 9 decimals", () => {
    const [base] = fc.sample(reply, { numRuns: 1, seed: 1 });
    assert.ok(base !== undefined);
    const shown = (start: number, waitMs: number) => {
      const { start: at, wait_time } = JSON.parse(
        json.check({ ...base, start, waitMs }).toString(),
      );
      return [at, wait_time];
    };
    assert.deepEqual(shown(0, 1_000), ["1970-01-01T00:00:00Z", "1s"]);
    assert.deepEqual(shown(1_500, 1), ["1970-01-01T00:00:01.500Z", "0.001s"]);
    assert.deepEqual(shown(1_500.25, 0.5), ["1970-01-01T00:00:01.500250Z", "0.000500s"]);
    assert.deepEqual(shown(1.000001, 0), ["1970-01-01T00:00:00.001000001Z", null]);
    assert.deepEqual(shown(1_999.9999999, 0), ["1970-01-01T00:00:02Z", null]);
  });
});

describe("writing the replies to HTTP checks", () => {
  it("writes the same CheckHTTPResponse in binary and JSON", () => {
    fc.assert(
      fc.property(answer, (given) => {
        const message = fromBinary(CheckHTTPResponseSchema, proto.writeCheckHttp(given));
        const text = json.checkHttp(given).toString();
        assert.deepEqual(JSON.parse(text), toJson(CheckHTTPResponseSchema, message));
      }),
    );
  });

  it("writes Envoy's CheckResponse with the check response as metadata", () => {
    fc.assert(
      fc.property(answer, (given) => {
        const bytes = proto.writeAuth(given);
        const { status, httpResponse, dynamicMetadata } = fromBinary(AuthResponseSchema, bytes);
        const encoded = dynamicMetadata?.[METADATA_KEY];
        assert.equal(encoded, proto.writeCheck(given.check).toString("base64"));
        assert.equal(status?.code, given.check.accepted ? 0 : 14);
        if (given.check.accepted) {
          assert.ok(httpResponse.case === "okResponse");
          const [option] = httpResponse.value.headers;
          assert.equal(option?.header?.value, given.baggage);
          // Present and false: overwrite.
          if (given.baggage !== undefined) assert.equal(option?.append, false);
          assert.equal(httpResponse.value.dynamicMetadata, undefined);
        } else {
          assert.ok(httpResponse.case === "deniedResponse");
          assert.equal(httpResponse.value.status?.code, given.deniedStatus);
          const [option] = httpResponse.value.headers;
          const wanted = given.retryAfter === 0 ? undefined : String(given.retryAfter);
          assert.equal(option?.header?.value, wanted);
        }
      }),
    );
  });

  it("leaves earlier replies unchanged while later ones are written", () => {
    const [first, second] = fc.sample(answer, { numRuns: 2, seed: 3 });
    assert.ok(first !== undefined && second !== undefined);
    const writers: readonly ((of: HttpAnswer) => Buffer)[] = [
      (of) => proto.writeAuth(of),
      (of) => proto.writeCheckHttp(of),
      (of) => proto.writeCheck(of.check),
    ];
    for (const write of writers) {
      const kept = write(first);
      const copy = Buffer.from(kept);
      write(second);
      assert.deepEqual(kept, copy);
    }
  });
});

describe("writing FlowEndResponse", () => {
  it("is the same in binary and JSON", () => {
    fc.assert(
      fc.property(flowEnds, (given) => {
        const message = fromBinary(FlowEndResponseSchema, writeFlowEndResponse(given));
        assert.ok(isMessage(message, FlowEndResponseSchema));
        assert.deepEqual(JSON.parse(flowEndJson(given)), toJson(FlowEndResponseSchema, message));
      }),
    );
  });
});
