import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toJson } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { createOperationContext } from "#api/context.ts";
import { NO_SERVICES } from "#api/service-lookup.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import type { FlowController } from "#flow/flow-controller.ts";
import { EMPTY_SCHEMA, Labels } from "#flow/label.ts";
import type { LabelRule, Rule } from "#flow/rules.ts";
import type { MessagesByName } from "#gen/messages-by-name.ts";
import { agentOf, callOf, common, embedded, endpointsOf } from "../kit/api/agent.ts";
import { CP, claims, ENDPOINTS, oneSlot, perUser, slots, threeEach } from "../kit/api/corpus.ts";
import { componentOf, decisionOf, recordingObserver } from "../kit/sluice/flow.ts";

type CheckResponse = MessagesByName["aperture.flowcontrol.check.v1.CheckResponse"];

describe("endpoints", () => {
  it("refuse a flow in ramp mode where no load ramp matches", async () => {
    const endpoints = endpointsOf(agentOf([]).flowController);
    const request = { path: "/", headers: {}, ramp: true };
    for (const ask of [
      ENDPOINTS.described,
      ENDPOINTS.describedJson,
      ENDPOINTS.feature,
      ENDPOINTS.featureJson,
    ]) {
      const seen = await ask(endpoints, request);
      assert.equal(seen.accepted, false);
      assert.equal(seen.reason, RejectReason.noMatchingRamp);
    }
    const reply = await endpoints.checkHttpJson({ control_point: "here", ramp_mode: true });
    assert.equal(reply.denied_response.status, 403);
    assert.equal(reply.check_response.denied_response_status_code, "Empty");
    assert.equal(reply.status.code, 14);
  });

  it("refuse an empty control point, and count no decision", async () => {
    const { flowController, observer } = agentOf([]);
    const endpoints = endpointsOf(flowController);
    const missing = { code: "INVALID_ARGUMENT", message: "missing control-point" };
    await assert.rejects(endpoints.proxy({}), missing);
    await assert.rejects(
      endpoints.proxy({ attributes: { contextExtensions: CP } }, callOf({ "control-point": "" })),
      missing,
    );
    await assert.rejects(endpoints.checkHttp({}), missing);
    await assert.rejects(endpoints.check({ labels: { a: "b" } }), missing);
    const nothing = {
      code: "INVALID_ARGUMENT",
      message: /^wanted inflight_requests, a reservation/,
    };
    await assert.rejects(endpoints.flowEnd({}), nothing);
    for (const body of ["", "{}", '{"control_point":null}']) {
      await assert.rejects(endpoints.checkHttpJson(body), missing);
      await assert.rejects(endpoints.checkJson(body), missing);
      await assert.rejects(endpoints.flowEndJson(body), nothing);
    }
    assert.equal(observer.verdicts.length, 0);
  });

  it("take the proxy's control point from the metadata first", async () => {
    const endpoints = endpointsOf(agentOf([]).flowController);
    const attributes = { contextExtensions: { "control-point": "there" } };
    const first = embedded((await endpoints.proxy({ attributes }, callOf(CP))).dynamicMetadata);
    assert.equal(first.controlPoint, "here");
    assert.equal(
      embedded((await endpoints.proxy({ attributes })).dynamicMetadata).controlPoint,
      "there",
    );
  });

  it("give every decision a unique id", async () => {
    const chance = seededChance(9);
    const { flowController } = agentOf([]);
    const ids = new Set<string | undefined>();
    for (let agent = 0; agent < 2; agent++) {
      const endpoints = endpointsOf(
        flowController,
        NO_SERVICES,
        createOperationContext(flowController, NO_SERVICES, chance),
      );
      const calls = [callOf(CP), callOf(), callOf()] as const;
      await endpoints.proxy({}, calls[0]);
      await endpoints.checkHttpJson({ control_point: "here" }, calls[1]);
      await endpoints.check({ controlPoint: "here" }, calls[2]);
      for (const { replied } of calls) ids.add(replied.get("x-sluice-decision-id"));
    }
    assert.equal(ids.size, 6);
    assert.ok(!ids.has(undefined));
  });

  it("say so when nobody judged a flow", async () => {
    const failure = { outcome: "undecided", dropped: true, failure: "closed" } as const;
    const decisions = [decisionOf(componentOf(), failure)];
    const refused = { accepted: false, reason: RejectReason.rateLimited, deniedStatus: 429 };
    for (const over of [
      { shed: "delay" },
      { shed: "in_progress", ...refused, decisions },
      { shed: undefined },
    ] as const) {
      const endpoints = endpointsOf(flowControllerOf((flow) => verdictOf(flow, over)));
      const asked = [
        (call: ReturnType<typeof callOf>) => endpoints.proxy({}, call),
        (call: ReturnType<typeof callOf>) => endpoints.checkHttp({ controlPoint: "here" }, call),
        (call: ReturnType<typeof callOf>) => endpoints.check({ controlPoint: "here" }, call),
        (call: ReturnType<typeof callOf>) =>
          endpoints.checkHttpJson(
            { control_point: "here", request: { method: "GET", path: "/" } },
            call,
          ),
        // Only the general parser can read this one.
        (call: ReturnType<typeof callOf>) =>
          endpoints.checkHttpJson({ controlPoint: "here", unknown: [{}] }, call),
        (call: ReturnType<typeof callOf>) => endpoints.checkJson({ control_point: "here" }, call),
      ];
      for (const ask of asked) {
        const call = callOf(CP);
        await ask(call);
        assert.equal(call.replied.get("x-sluice-shed"), over.shed);
      }
    }
    const controller = flowControllerOf((flow) => verdictOf(flow, { ...refused, decisions }));
    const reply = await endpointsOf(controller).checkJson({ control_point: "here" });
    assert.equal(reply.limiter_decisions[0].failure_mode, "closed");
  });

  it("validate the socket addresses of Sluice's messages, but not those of Envoy's", async () => {
    const endpoints = endpointsOf(agentOf([]).flowController);
    const wanted = { code: "INVALID_ARGUMENT", http: 400 };
    for (const socket of [{}, { address: "" }, { address: "a", port: 65_536 }]) {
      await assert.rejects(
        endpoints.checkHttpJson({ control_point: "here", source: socket }),
        wanted,
      );
      await assert.rejects(
        endpoints.checkHttp({ controlPoint: "here", destination: socket }),
        wanted,
      );
    }
    for (const protocol of [2, -1]) {
      const socket = { address: "a", protocol };
      await assert.rejects(
        endpoints.checkHttpJson({ control_point: "here", source: socket }),
        wanted,
      );
    }
    const value = { address: "", portSpecifier: { case: "portValue" as const, value: 99_999 } };
    const source = { address: { address: { case: "socketAddress" as const, value } } };
    const reply = await endpoints.proxy({ attributes: { source } }, callOf(CP));
    assert.equal(reply.httpResponse.case, "okResponse");
  });
});

describe("a reply", () => {
  it("tells when the check began and ended", async () => {
    const times = { start: 1_700_000_000_000, end: 1_700_000_000_250 };
    const endpoints = endpointsOf(flowControllerOf((flow) => verdictOf(flow, times)));
    const wanted = { start: "2023-11-14T22:13:20Z", end: "2023-11-14T22:13:20.250Z" };
    const timesOf = ({ start, end }: CheckResponse) => ({
      start: start && toJson(TimestampSchema, start),
      end: end && toJson(TimestampSchema, end),
    });
    const { dynamicMetadata } = await endpoints.proxy({}, callOf(CP));
    assert.deepEqual(timesOf(embedded(dynamicMetadata)), wanted);
    assert.deepEqual(timesOf(await endpoints.check({ controlPoint: "here" })), wanted);
    const described = await endpoints.checkHttpJson({ control_point: "here" });
    const feature = await endpoints.checkJson({ control_point: "here" });
    for (const { start, end } of [described.check_response, feature]) {
      assert.deepEqual({ start, end }, wanted);
    }
  });
});

describe("a refusal", () => {
  it("has its status, retry-after and reason in HTTP checks, and the wait in Check", async () => {
    const { flowController } = agentOf([
      [perUser, { ...threeEach, bucketCapacity: 1, fillAmount: 0.4 }],
    ]);
    const endpoints = endpointsOf(flowController);
    const headers = { "user-id": "ann" };
    await ENDPOINTS.proxy(endpoints, { path: "/", headers, ramp: false });
    const http = { headers };
    const { status, httpResponse, dynamicMetadata } = await endpoints.proxy(
      { attributes: { request: { http } } },
      callOf(CP),
    );
    assert.equal(status?.code, 14);
    assert.ok(httpResponse.case === "deniedResponse");
    assert.equal(httpResponse.value.status?.code, 429);
    assert.equal(httpResponse.value.headers[0]?.header?.key, "retry-after");
    assert.equal(httpResponse.value.headers[0]?.header?.value, "3", "2.5 s, rounded up");
    const copy = embedded(dynamicMetadata);
    assert.equal(copy.waitTime, undefined, "is in the retry-after header instead");
    assert.ok(copy.start !== undefined && copy.end !== undefined);
    assert.equal(copy.deniedResponseStatusCode, 429);
    const described = await endpoints.checkHttpJson({
      control_point: "here",
      request: { headers },
    });
    assert.deepEqual(described.denied_response, {
      status: 429,
      headers: { "retry-after": "3" },
      body: "",
    });
    assert.equal("ok_response" in described, false);
    assert.equal(described.check_response.wait_time, null);
    const plain = await endpoints.checkJson({ control_point: "here", labels: claims(headers) });
    assert.equal(plain.wait_time, "2.500s");
    assert.equal(plain.denied_response_status_code, "TooManyRequests");
    assert.deepEqual(plain.telemetry_flow_labels, {
      ...claims(headers),
      "aperture.control_point_type": "feature",
    });
  });

  it("always has an explicit status", async () => {
    const wanted = [
      [RejectReason.rateLimited, 429, 429],
      [RejectReason.noTokens, 503, 503],
      [RejectReason.noMatchingRamp, 0, 403],
    ] as const;
    for (const [reason, deniedStatus, code] of wanted) {
      const over = { accepted: false, reason, deniedStatus };
      const endpoints = endpointsOf(flowControllerOf((flow) => verdictOf(flow, over)));
      const { httpResponse } = await endpoints.proxy({}, callOf(CP));
      assert.ok(httpResponse.case === "deniedResponse");
      assert.equal(httpResponse.value.status?.code, code);
      assert.deepEqual(httpResponse.value.headers, []);
    }
  });
});

function verdictOf(flow: Flow, over: Partial<Verdict>): Verdict {
  return {
    accepted: true,
    reason: RejectReason.none,
    deniedStatus: 0,
    refusal: undefined,
    shed: undefined,
    waitMs: 0,
    decisions: [],
    held: undefined,
    reservationId: "",
    decisionId: "decision0001",
    classifiers: [],
    fluxMeters: [],
    labels: new Labels(EMPTY_SCHEMA, flow.labels),
    start: 1_000,
    end: 1_001,
    ...over,
  };
}

function flowControllerOf(judge: FlowController["judge"]): FlowController {
  const refuse = () => assert.fail("nothing is refused unjudged");
  const settle = () => assert.fail("nothing is settled");
  return { judge, refuse, end: () => [], settle, reservations: 0, observer: recordingObserver() };
}

describe("a verdict that has to wait", () => {
  it("is sent by every endpoint as soon as it settles", async () => {
    for (const ask of Object.values(ENDPOINTS)) {
      const waiting: (() => void)[] = [];
      const endpoints = endpointsOf(
        flowControllerOf((flow) => {
          const pending = new Pending<Verdict>();
          const component = componentOf();
          waiting.push(() =>
            pending.settle(verdictOf(flow, { decisions: [decisionOf(component)] })),
          );
          return pending;
        }),
      );
      const reply = ask(endpoints, { path: "/x", headers: { "user-id": "ann" }, ramp: false });
      await new Promise((resolve) => setImmediate(resolve));
      waiting[0]?.();
      assert.equal((await reply).decisions[0]?.label, "default");
    }
  });

  it("is cancelled when the caller leaves, even if it left before the verdict was asked for", async () => {
    for (const leave of ["before", "after"]) {
      let cancelled = 0;
      const flowController = flowControllerOf((flow) => {
        const pending: Pending<Verdict> = new Pending(() => {
          cancelled += 1;
          pending.settle(verdictOf(flow, { accepted: false, reason: RejectReason.noTokens }));
        });
        return pending;
      });
      const call = callOf(CP);
      if (leave === "before") call.leave();
      const reply = endpointsOf(flowController).proxy({}, call);
      call.leave();
      assert.equal((await reply).status?.code, 14);
      assert.equal(cancelled, 1);
    }
  });

  it("cancels nothing when the caller leaves after its answer, and creates no signal", async () => {
    let cancelled = 0;
    const waiting: (() => void)[] = [];
    const endpoints = endpointsOf(
      flowControllerOf((flow) => {
        const pending = new Pending<Verdict>(() => cancelled++);
        waiting.push(() => pending.settle(verdictOf(flow, {})));
        return pending;
      }),
    );
    const signal = () => assert.fail("the signal was asked for");
    const calls = [callOf(CP, { signal }), callOf({}, { signal })] as const;
    const replies = [
      endpoints.proxy({}, calls[0]),
      endpoints.checkJson({ control_point: "here" }, calls[1]),
    ];
    for (const settle of waiting) settle();
    for (const call of calls) call.leave();
    await Promise.all(replies);
    assert.equal(cancelled, 0);
  });

  it("does not create the abort signal when the verdict is immediate", async () => {
    const signal = () => assert.fail("the signal was asked for");
    const endpoints = endpointsOf(agentOf([]).flowController);
    await endpoints.proxy({}, callOf(CP, { signal }));
    await endpoints.checkHttpJson({ control_point: "here" }, callOf({}, { signal }));
    await endpoints.check({ controlPoint: "here" }, callOf({}, { signal }));
  });

  it("rejects its promise when the reply cannot be encoded", async () => {
    const flowController = flowControllerOf((flow) => {
      const pending = new Pending<Verdict>();
      setImmediate(() => pending.settle(verdictOf(flow, { start: Number.NaN })));
      return pending;
    });
    await assert.rejects(endpointsOf(flowController).checkHttpJson({ control_point: "here" }));
  });
});

describe("the end of a flow", () => {
  it("returns the slot in either encoding, one result per reference", async () => {
    const agent = agentOf([[slots, oneSlot]]);
    const ended: string[] = [];
    const observer = { ...agent.observer, ended: (point: string) => void ended.push(point) };
    const endpoints = endpointsOf({ ...agent.flowController, observer });
    const take = () => endpoints.checkJson({ control_point: "here", expect_end: true });
    const refOf = (reply: Awaited<ReturnType<typeof take>>) => {
      const [{ policy_name, policy_hash, component_id, concurrency_limiter_info: info }] =
        reply.limiter_decisions;
      const { label, request_id, tokens_info } = info;
      return {
        policy_name,
        policy_hash,
        component_id,
        label,
        request_id,
        tokens: tokens_info.consumed,
      };
    };
    const first = refOf(await take());
    assert.equal((await take()).decision_type, "DECISION_TYPE_REJECTED");
    const unknown = { ...first, policy_name: "unknown" };
    const reply = await endpoints.flowEndJson({
      control_point: "here",
      inflight_requests: [first, { ...first }, { ...first, request_id: "" }, unknown],
    });
    assert.deepEqual(reply.token_return_statuses, [
      { inflight_request_ref: first, returned: true, error: "" },
      { inflight_request_ref: first, returned: false, error: "" },
      {
        inflight_request_ref: { ...first, request_id: "" },
        returned: false,
        error: "request id cannot be empty",
      },
      {
        inflight_request_ref: unknown,
        returned: false,
        error: "flow ender not found for limiter id",
      },
    ]);
    const second = refOf(await take());
    const binary = await endpoints.flowEnd({
      controlPoint: "here",
      inflightRequests: [
        {
          policyName: second.policy_name,
          policyHash: "an older version",
          componentId: second.component_id,
          label: second.label,
          requestId: second.request_id,
          tokens: second.tokens,
        },
      ],
    });
    assert.deepEqual(
      binary.tokenReturnStatuses.map(({ returned }) => returned),
      [true],
    );
    assert.deepEqual(ended, ["here", "here"]);
  });
});

describe("the cost of a flow", () => {
  const settling: Rule = {
    ...common,
    kind: "rate_limiter",
    componentId: "root.0",
    limitByLabelKey: "",
    tokensLabelKey: "estimate",
    intervalMs: 1_000,
    continuousFill: true,
    delayInitialFill: false,
    maxIdleMs: 0,
    lazySyncs: 0,
    settlement: { timeoutMs: 60_000, unsettled: "keep", refundStatuses: ["5xx"] },
  };
  const hundred = { ...threeEach, bucketCapacity: 100, fillAmount: 0 };
  const labels = { estimate: "30" };
  const setUp = () => {
    const endpoints = endpointsOf(agentOf([[settling, hundred]]).flowController);
    const left = async () => {
      const free = { control_point: "here", labels: { estimate: "0" } };
      const [decision] = (await endpoints.checkJson(free)).limiter_decisions;
      return decision.rate_limiter_info.tokens_info.remaining;
    };
    return { endpoints, left };
  };

  it("is settled in either encoding by the id in the reply, once", async () => {
    const { endpoints, left } = setUp();
    const json = await endpoints.checkJson({ control_point: "here", labels });
    const end = { control_point: "here", reservation_id: json.reservation_id, cost: 10 };
    const first = await endpoints.flowEndJson(end);
    assert.deepEqual(first, { token_return_statuses: [], settled: true });
    assert.equal(await left(), 90);
    const second = await endpoints.flowEndJson({ ...end, cost: 0 });
    assert.equal(second.settled, false);
    assert.match(second.settlement_error, /settled before/);
    const binary = await endpoints.check({ controlPoint: "here", labels });
    const { reservationId = "" } = binary;
    const ended = await endpoints.flowEnd({ controlPoint: "here", reservationId, cost: 0 });
    assert.equal(ended.settled, true);
    assert.equal(await left(), 90);
    const failed = await endpoints.checkJson({ control_point: "here", labels });
    const refund = { reservation_id: failed.reservation_id, status_code: 503 };
    assert.equal((await endpoints.flowEndJson(refund)).settled, true, "without a control point");
    assert.equal(await left(), 90);
    const right = await endpoints.check({ controlPoint: "here", labels });
    const known = {
      controlPoint: "here",
      reservationId: right.reservationId ?? "",
      statusCode: 200,
    };
    assert.equal((await endpoints.flowEnd(known)).settled, true);
    assert.equal(await left(), 60);
  });

  it("is named in the decision that proxies log", async () => {
    const { endpoints } = setUp();
    const { dynamicMetadata } = await endpoints.proxy({}, callOf(CP));
    assert.match(embedded(dynamicMetadata).reservationId ?? "", /^[0-9a-f-]{36}$/);
  });

  it("is absent from replies where nothing is settled", async () => {
    const endpoints = endpointsOf(agentOf([[slots, oneSlot]]).flowController);
    assert.ok(!("reservation_id" in (await endpoints.checkJson({ control_point: "here" }))));
    const ended = await endpoints.flowEndJson({ control_point: "here" });
    assert.deepEqual(ended, { token_return_statuses: [] });
  });

  it("is refused where nobody can mean it", async () => {
    const { endpoints, left } = setUp();
    const { reservation_id } = await endpoints.checkJson({ control_point: "here", labels });
    const end = { control_point: "here", reservation_id };
    for (const cost of [-1, 1e13]) {
      await assert.rejects(endpoints.flowEndJson({ ...end, cost }), {
        code: "INVALID_ARGUMENT",
        message: `cost: wanted a number from 0 to 1000000000000, got ${cost}`,
      });
    }
    for (const cost of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const binary = { controlPoint: "here", reservationId: reservation_id, cost };
      await assert.rejects(endpoints.flowEnd(binary), { code: "INVALID_ARGUMENT" });
    }
    await assert.rejects(endpoints.flowEndJson({ ...end, cost: "much" }));
    for (const status_code of [99, 1_000, 99_999]) {
      await assert.rejects(endpoints.flowEndJson({ ...end, status_code }), {
        code: "INVALID_ARGUMENT",
        message: `status_code: wanted an HTTP status of three digits, or 0 for none, got ${status_code}`,
      });
    }
    const unreserved = await endpoints.flowEndJson({ control_point: "here", cost: 1 });
    assert.equal(unreserved.settled, false);
    assert.match(unreserved.settlement_error, /^wanted the reservation_id .* got none/);
    assert.equal(await left(), 70);
    assert.equal(
      (await endpoints.flowEndJson({ ...end, cost: "1.5e1", status_code: 999 })).settled,
      true,
    );
    assert.equal(await left(), 85);
  });
});

describe("classifiers' labels", () => {
  const rule = (label: string, from: string, telemetry = true): LabelRule => ({
    label,
    telemetry,
    unreadableValue: "",
    extractor: { kind: "from", from },
  });
  const classifier: Rule = {
    kind: "classifier",
    policyName: "p",
    policyHash: "h1",
    index: 0,
    selectors: common.selectors,
    rules: [
      rule("plan", "request.http.headers.x-plan"),
      rule("hidden", "request.http.headers.x-hidden", false),
    ],
  };
  const headers = { baggage: "plan=old;p=1,user=ann", "x-plan": "gold%", "x-hidden": "h" };

  it("are sent on in one baggage header that replaces the caller's and keeps its other members", async () => {
    const endpoints = endpointsOf(agentOf([[classifier]]).flowController);
    const proxy = await endpoints.proxy(
      { attributes: { request: { http: { headers } } } },
      callOf(CP),
    );
    assert.ok(proxy.httpResponse.case === "okResponse");
    const [option, ...more] = proxy.httpResponse.value.headers;
    assert.deepEqual(more, []);
    assert.equal(option?.header?.key, "baggage");
    assert.equal(option?.header?.value, "user=ann,plan=gold%25");
    assert.equal(option?.append, false);
    const described = await endpoints.checkHttpJson({
      control_point: "here",
      request: { headers },
    });
    assert.deepEqual(described.ok_response, {
      headers: { baggage: "user=ann,plan=gold%25" },
      dynamic_metadata: null,
    });
    const { check_response: check } = described;
    assert.equal(check.telemetry_flow_labels.plan, "gold%");
    assert.equal("hidden" in check.telemetry_flow_labels, false);
    assert.ok(check.flow_label_keys.includes("hidden") && check.flow_label_keys.includes("user"));
    assert.deepEqual([...check.flow_label_keys].sort(), check.flow_label_keys);
    assert.equal(new Set(check.flow_label_keys).size, check.flow_label_keys.length);
    assert.equal(check.classifier_infos[0].classifier_index, "0");
  });

  it("leave the headers unchanged when there are no labels to send on", async () => {
    const endpoints = endpointsOf(agentOf([[classifier]]).flowController);
    const request = { headers: { "x-hidden": "h", baggage: "a=1" } };
    const reply = await endpoints.checkHttpJson({ control_point: "here", request });
    assert.deepEqual(reply.ok_response.headers, {});
  });
});

describe("a check that asks for cached values", () => {
  it("gets a miss or an error for each key, since there is no cache", async () => {
    const endpoints = endpointsOf(agentOf([]).flowController);
    const ask = (lookup: unknown) =>
      endpoints.checkJson({ control_point: "here", cache_lookup_request: lookup });
    const empty = { result_cache_response: null, global_cache_responses: {} };
    assert.deepEqual((await ask({})).cache_lookup_response, empty);
    assert.equal((await ask(null)).cache_lookup_response, null);
    const { cache_lookup_response: cache } = await ask({
      result_cache_key: "k",
      global_cache_keys: ["g"],
    });
    assert.equal(cache.result_cache_response.lookup_status, "MISS");
    assert.equal(cache.global_cache_responses.g.operation_status, "ERROR");
  });
});
