// Stored messages of components that this version of the agent does not run, and what agents report.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CircuitDecision } from "#circuit/decision.ts";
import { documentText } from "#sync/follow/document.ts";
import { readReplicas } from "#sync/follow/replicas.ts";
import { REPLICAS } from "#sync/keys.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { identity } from "./setup.ts";

describe("messages of components that this version of the agent does not run", () => {
  const agents = { componentId: "root.4", agentGroups: ["a", "b"] };
  const key = (kind: string, group: string) =>
    `/decisions/${kind}/agent_group-${group}-policy-p-component_id-root.4`;
  const attributes = { policyName: "p", policyHash: "h", componentId: "root.4" };

  it("a load decision carries its tick and the time until which it is valid", () => {
    const decision: CircuitDecision = {
      ...agents,
      kind: "load_scheduler",
      tick: { number: 11, timestamp: 1_700_000_000_250, intervalMs: 500 },
      loadMultiplier: 0.5,
      passThrough: false,
      tokensByWorkload: new Map([["0", 12.5]]),
      validUntil: 1_700_000_050_250,
    };
    const entries = decisionEntries(identity, decision);
    assert.deepEqual([...entries.keys()], [key("load_scheduler", "a"), key("load_scheduler", "b")]);
    const value = entries.get(key("load_scheduler", "a")) ?? assert.fail();
    assert.deepEqual(decode("aperture.policy.sync.v1.LoadDecisionWrapper", value), {
      commonAttributes: attributes,
      loadDecision: {
        tickInfo: {
          timestamp: { seconds: 1_700_000_000n, nanos: 250_000_000 },
          nextTimestamp: null,
          tick: 11n,
          interval: { seconds: 0n, nanos: 500_000_000 },
        },
        loadMultiplier: 0.5,
        passThrough: false,
        tokensByWorkloadIndex: { 0: 12.5 },
        validUntil: { seconds: 1_700_000_050n, nanos: 250_000_000 },
      },
    });
  });

  it("schedulers get the same decision messages as their limiters", () => {
    const quota = { bucketCapacity: 5, fillAmount: 0.5, passThrough: true };
    const [, rate] = decisionEntries(identity, { ...agents, kind: "quota_scheduler", ...quota });
    assert.equal(rate?.[0], key("quota_scheduler", "b"));
    assert.deepEqual(
      decode("aperture.policy.sync.v1.RateLimiterDecisionWrapper", rate?.[1] ?? assert.fail())
        .rateLimiterDecision,
      quota,
    );
    const most = { maxConcurrency: 7, passThrough: true };
    const [slots] = decisionEntries(identity, {
      ...agents,
      kind: "concurrency_scheduler",
      ...most,
    });
    assert.equal(slots?.[0], key("concurrency_scheduler", "a"));
    assert.deepEqual(
      decode(
        "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper",
        slots?.[1] ?? assert.fail(),
      ).concurrencyLimiterDecision,
      most,
    );
  });

  it("a scale decision without replicas deletes its key", () => {
    const wanted = decisionEntries(identity, { ...agents, kind: "pod_scaler", desiredReplicas: 3 });
    const value = wanted.get(key("pod_scaler", "a")) ?? assert.fail();
    assert.deepEqual(decode("aperture.policy.sync.v1.ScaleDecisionWrapper", value).scaleDecision, {
      desiredReplicas: 3,
    });
    const none = decisionEntries(identity, {
      ...agents,
      kind: "pod_scaler",
      desiredReplicas: undefined,
    });
    assert.deepEqual(
      [...none],
      [
        [key("pod_scaler", "a"), undefined],
        [key("pod_scaler", "b"), undefined],
      ],
    );
  });

  it("replica reports of agents are read", () => {
    const bytes = encode("aperture.policy.sync.v1.ScaleStatusWrapper", {
      commonAttributes: attributes,
      scaleStatus: { configuredReplicas: 4, actualReplicas: 3 },
    });
    assert.deepEqual(readReplicas(bytes), { ...attributes, configured: 4, actual: 3 });
    assert.throws(() => readReplicas(new Uint8Array()), /wanted attributes/);
    assert.throws(() => readReplicas(new Uint8Array([255])), /wanted a serialized/);
    assert.equal(REPLICAS, "/status/pod_scaler/");
  });

  it("stored documents are text, or messages, whose absent fields have the zero of their type", async () => {
    for (const text of ['{"circuit":null}', "circuit: {}\n", "\ncircuit: {}\n", ""]) {
      assert.equal(await documentText(Buffer.from(text)), text);
    }
    const parameters = { continuousFill: false, maxIdleTime: { seconds: 1 } };
    const component = { flowControl: { rateLimiter: { parameters } } };
    const bytes = encode("aperture.policy.language.v1.Policy", {
      circuit: { components: [component] },
    });
    const { circuit } = JSON.parse(await documentText(bytes));
    const read = circuit.components[0].flow_control.rate_limiter.parameters;
    assert.equal(read.continuous_fill, false);
    assert.equal(read.max_idle_time, "1s");
  });
});
