import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { doorOf } from "#api/door.ts";
import { NO_SERVICES } from "#api/services.ts";
import { seededChance } from "#base/chance.ts";
import { type Flow, Pending, RejectReason, type Verdict } from "#flow/flow.ts";
import { Labels } from "#flow/label.ts";
import type { Mind } from "#flow/mind.ts";
import type { LabelRule, Rule } from "#flow/rules.ts";
import { componentOf, decisionOf, listening } from "../kit/flow.ts";
import { agentOf, callOf, common, doorsOf, embedded } from "./agent.ts";
import { CP, claims, DOORS, oneSlot, perUser, slots, threeEach } from "./corpus.ts";

describe("doors", () => {
  it("turn a ramp flow away where no ramp is", async () => {
    const doors = doorsOf(agentOf([]).mind);
    const request = { path: "/", headers: {}, ramp: true };
    for (const ask of [DOORS.described, DOORS.describedJson, DOORS.feature, DOORS.featureJson]) {
      const seen = await ask(doors, request);
      assert.equal(seen.accepted, false);
      assert.equal(seen.reason, RejectReason.noMatchingRamp);
    }
    const reply = await doors.checkHttpJson({ control_point: "here", ramp_mode: true });
    assert.equal(reply.denied_response.status, 403);
    assert.equal(reply.check_response.denied_response_status_code, "Empty");
    assert.equal(reply.status.code, 14);
  });

  it("refuse an empty control point, and count no decision", async () => {
    const { mind, observer } = agentOf([]);
    const doors = doorsOf(mind);
    const missing = { code: "INVALID_ARGUMENT", message: "missing control-point" };
    await assert.rejects(doors.proxy({}), missing);
    await assert.rejects(
      doors.proxy({ attributes: { contextExtensions: CP } }, callOf({ "control-point": "" })),
      missing,
    );
    await assert.rejects(doors.checkHttp({}), missing);
    await assert.rejects(doors.check({ labels: { a: "b" } }), missing);
    await assert.rejects(doors.flowEnd({}), missing);
    for (const body of ["", "{}", '{"control_point":null}']) {
      await assert.rejects(doors.checkHttpJson(body), missing);
      await assert.rejects(doors.checkJson(body), missing);
      await assert.rejects(doors.flowEndJson(body), missing);
    }
    assert.equal(observer.verdicts.length, 0);
  });

  it("take the proxy's control point from the metadata first", async () => {
    const doors = doorsOf(agentOf([]).mind);
    const attributes = { contextExtensions: { "control-point": "there" } };
    const first = embedded((await doors.proxy({ attributes }, callOf(CP))).dynamicMetadata);
    assert.equal(first.controlPoint, "here");
    assert.equal(
      embedded((await doors.proxy({ attributes })).dynamicMetadata).controlPoint,
      "there",
    );
  });

  it("give every decision an id of its own", async () => {
    const chance = seededChance(9);
    const { mind } = agentOf([]);
    const ids = new Set<string | undefined>();
    for (let agent = 0; agent < 2; agent++) {
      const doors = doorsOf(mind, NO_SERVICES, doorOf(mind, NO_SERVICES, chance));
      const calls = [callOf(CP), callOf(), callOf()] as const;
      await doors.proxy({}, calls[0]);
      await doors.checkHttpJson({ control_point: "here" }, calls[1]);
      await doors.check({ controlPoint: "here" }, calls[2]);
      for (const { replied } of calls) ids.add(replied.get("x-sluice-decision-id"));
    }
    assert.equal(ids.size, 6);
    assert.ok(!ids.has(undefined));
  });

  it("refuse sockets against the field rules of our own messages, not of the proxy's", async () => {
    const doors = doorsOf(agentOf([]).mind);
    const wanted = { code: "INVALID_ARGUMENT", http: 400 };
    for (const socket of [{}, { address: "" }, { address: "a", port: 65_536 }]) {
      await assert.rejects(doors.checkHttpJson({ control_point: "here", source: socket }), wanted);
      await assert.rejects(doors.checkHttp({ controlPoint: "here", destination: socket }), wanted);
    }
    for (const protocol of [2, -1]) {
      const socket = { address: "a", protocol };
      await assert.rejects(doors.checkHttpJson({ control_point: "here", source: socket }), wanted);
    }
    const value = { address: "", portSpecifier: { case: "portValue" as const, value: 99_999 } };
    const source = { address: { address: { case: "socketAddress" as const, value } } };
    const reply = await doors.proxy({ attributes: { source } }, callOf(CP));
    assert.equal(reply.httpResponse.case, "okResponse");
  });
});

describe("a refusal", () => {
  it("has its status, retry-after and reason at the HTTP doors, and the wait at the plain one", async () => {
    const { mind } = agentOf([[perUser, { ...threeEach, bucketCapacity: 1, fillAmount: 0.4 }]]);
    const doors = doorsOf(mind);
    const headers = { "user-id": "ann" };
    await DOORS.proxy(doors, { path: "/", headers, ramp: false });
    const http = { headers };
    const { status, httpResponse, dynamicMetadata } = await doors.proxy(
      { attributes: { request: { http } } },
      callOf(CP),
    );
    assert.equal(status?.code, 14);
    assert.ok(httpResponse.case === "deniedResponse");
    assert.equal(httpResponse.value.status?.code, 429);
    assert.equal(httpResponse.value.headers[0]?.header?.key, "retry-after");
    assert.equal(httpResponse.value.headers[0]?.header?.value, "3", "2.5 s, rounded up");
    const copy = embedded(dynamicMetadata);
    assert.equal(copy.waitTime, undefined, "said as a header, so no longer here");
    assert.ok(copy.start !== undefined && copy.end !== undefined);
    assert.equal(copy.deniedResponseStatusCode, 429);
    const described = await doors.checkHttpJson({ control_point: "here", request: { headers } });
    assert.deepEqual(described.denied_response, {
      status: 429,
      headers: { "retry-after": "3" },
      body: "",
    });
    assert.equal("ok_response" in described, false);
    assert.equal(described.check_response.wait_time, null);
    const plain = await doors.checkJson({ control_point: "here", labels: claims(headers) });
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
      const doors = doorsOf(mindThat((flow) => verdictOf(flow, over)));
      const { httpResponse } = await doors.proxy({}, callOf(CP));
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
    waitMs: 0,
    decisions: [],
    classifiers: [],
    fluxMeters: [],
    labels: new Labels([], flow.labels),
    start: 1_000,
    end: 1_001,
    ...over,
  };
}

function mindThat(judge: Mind["judge"]): Mind {
  return { judge, end: () => [], observer: listening() };
}

describe("a verdict that has to wait", () => {
  it("is answered when it comes, at every door", async () => {
    for (const ask of Object.values(DOORS)) {
      const waiting: (() => void)[] = [];
      const doors = doorsOf(
        mindThat((flow) => {
          const pending = new Pending<Verdict>();
          const component = componentOf();
          waiting.push(() =>
            pending.settle(verdictOf(flow, { decisions: [decisionOf(component)] })),
          );
          return pending;
        }),
      );
      const reply = ask(doors, { path: "/x", headers: { "user-id": "ann" }, ramp: false });
      await new Promise((resolve) => setImmediate(resolve));
      waiting[0]?.();
      assert.equal((await reply).decisions[0]?.label, "default");
    }
  });

  it("is given up when the caller leaves, also one that has left already", async () => {
    for (const leave of ["before", "after"]) {
      let cancelled = 0;
      const mind = mindThat((flow) => {
        const pending: Pending<Verdict> = new Pending(() => {
          cancelled += 1;
          pending.settle(verdictOf(flow, { accepted: false, reason: RejectReason.noTokens }));
        });
        return pending;
      });
      const call = callOf(CP);
      if (leave === "before") call.leave();
      const reply = doorsOf(mind).proxy({}, call);
      call.leave();
      assert.equal((await reply).status?.code, 14);
      assert.equal(cancelled, 1);
    }
  });

  it("listens for the caller's leaving as long as it waits, and no longer", async () => {
    const waiting: (() => void)[] = [];
    const doors = doorsOf(
      mindThat((flow) => {
        const pending = new Pending<Verdict>();
        waiting.push(() => pending.settle(verdictOf(flow, {})));
        return pending;
      }),
    );
    const call = callOf(CP);
    const replies = [doors.proxy({}, call), doors.checkJson({ control_point: "here" }, call)];
    assert.equal(call.listeners, 2);
    waiting[0]?.();
    assert.equal(call.listeners, 1);
    waiting[1]?.();
    assert.equal(call.listeners, 0);
    await Promise.all(replies);
  });

  it("never asks for the signal when it need not", async () => {
    const signal = () => assert.fail("the signal was asked for");
    const doors = doorsOf(agentOf([]).mind);
    await doors.proxy({}, callOf(CP, { signal }));
    await doors.checkHttpJson({ control_point: "here" }, callOf({}, { signal }));
    await doors.check({ controlPoint: "here" }, callOf({}, { signal }));
  });

  it("fails its promise when the reply cannot be made", async () => {
    const mind = mindThat((flow) => {
      const pending = new Pending<Verdict>();
      setImmediate(() => pending.settle(verdictOf(flow, { start: Number.NaN })));
      return pending;
    });
    await assert.rejects(doorsOf(mind).checkHttpJson({ control_point: "here" }));
  });
});

describe("the end of a flow", () => {
  it("gives the slot back at either door, one answer per reference", async () => {
    const agent = agentOf([[slots, oneSlot]]);
    const ended: string[] = [];
    const observer = { ...agent.observer, ended: (point: string) => void ended.push(point) };
    const doors = doorsOf({ ...agent.mind, observer });
    const take = () => doors.checkJson({ control_point: "here", expect_end: true });
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
    const nobody = { ...first, policy_name: "nobody" };
    const reply = await doors.flowEndJson({
      control_point: "here",
      inflight_requests: [first, { ...first }, { ...first, request_id: "" }, nobody],
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
        inflight_request_ref: nobody,
        returned: false,
        error: "flow ender not found for limiter id",
      },
    ]);
    const second = refOf(await take());
    const binary = await doors.flowEnd({
      controlPoint: "here",
      inflightRequests: [
        {
          policyName: second.policy_name,
          policyHash: "an older one",
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

describe("classifiers' labels", () => {
  const rule = (label: string, from: string, telemetry = true): LabelRule => ({
    label,
    telemetry,
    extractor: { kind: "from", from },
  });
  const classifier: Rule = {
    kind: "classifier",
    ...{ policyName: "p", policyHash: "h1", index: 0, selectors: common.selectors },
    rules: [
      rule("plan", "request.http.headers.x-plan"),
      rule("hidden", "request.http.headers.x-hidden", false),
    ],
  };
  const headers = { baggage: "plan=old;p=1,user=ann", "x-plan": "gold%", "x-hidden": "h" };

  it("go on as one overwriting baggage header, with what was there", async () => {
    const doors = doorsOf(agentOf([[classifier]]).mind);
    const proxy = await doors.proxy({ attributes: { request: { http: { headers } } } }, callOf(CP));
    assert.ok(proxy.httpResponse.case === "okResponse");
    const [option, ...more] = proxy.httpResponse.value.headers;
    assert.deepEqual(more, []);
    assert.equal(option?.header?.key, "baggage");
    assert.equal(option?.header?.value, "user=ann,plan=gold%25");
    assert.equal(option?.append, false);
    const described = await doors.checkHttpJson({ control_point: "here", request: { headers } });
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

  it("leave the headers alone when there are none to tell of", async () => {
    const doors = doorsOf(agentOf([[classifier]]).mind);
    const request = { headers: { "x-hidden": "h", baggage: "a=1" } };
    const reply = await doors.checkHttpJson({ control_point: "here", request });
    assert.deepEqual(reply.ok_response.headers, {});
  });
});

describe("a check that asks for cached values", () => {
  it("is told key by key that there are none", async () => {
    const doors = doorsOf(agentOf([]).mind);
    const ask = (lookup: unknown) =>
      doors.checkJson({ control_point: "here", cache_lookup_request: lookup });
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
