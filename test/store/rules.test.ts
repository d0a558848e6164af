import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LimiterNumbers, Rule, SelectorRule } from "#flow/rules.ts";
import { memoryStore } from "#store/memory.ts";
import { agentPrefixes, readBatch, storedRules } from "#store/rules.ts";
import type { Batch } from "#store/store.ts";
import { encode } from "#wire/messages.ts";

const selector: SelectorRule = {
  controlPoint: "ingress",
  agentGroup: "default",
  service: "any",
  matcher: {
    labels: { tier: "gold" },
    list: [{ key: "region", operator: "NotIn", values: ["eu", ""] }],
    expression: {
      kind: "all",
      of: [
        { kind: "not", of: { kind: "label_exists", label: "bot" } },
        {
          kind: "any",
          of: [
            { kind: "label_equals", label: "a", value: "" },
            { kind: "label_matches", label: "b", regex: "^x" },
          ],
        },
      ],
    },
  },
};
const plain: SelectorRule = {
  controlPoint: "egress",
  agentGroup: "prod",
  service: "cart",
  matcher: { labels: {}, list: [], expression: undefined },
};
const component = { policyName: "p", policyHash: "h", selectors: [selector, plain] };

const rules: readonly Rule[] = [
  {
    ...component,
    kind: "rate_limiter",
    componentId: "root.0",
    onFailure: "local",
    deniedStatus: 503,
    limitByLabelKey: "user",
    tokensLabelKey: "cost",
    intervalMs: 1_500.25,
    continuousFill: false,
    delayInitialFill: true,
    maxIdleMs: 7_200_000,
    lazySyncs: 4,
  },
  {
    ...component,
    kind: "concurrency_limiter",
    componentId: "root.1",
    onFailure: "local",
    deniedStatus: 0,
    limitByLabelKey: "",
    tokensLabelKey: "",
    maxInflightMs: 60_000,
    maxIdleMs: 0,
  },
  {
    ...component,
    kind: "sampler",
    componentId: "root.2",
    onFailure: "local",
    deniedStatus: 403,
    sessionLabelKey: "session",
    rampMode: true,
  },
  {
    kind: "classifier",
    policyName: "p",
    policyHash: "h",
    index: 3,
    selectors: [selector, plain],
    rules: [
      { label: "a", telemetry: true, extractor: { kind: "from", from: "request.http.path" } },
      {
        label: "b",
        telemetry: false,
        extractor: { kind: "json", from: "request.http.body", pointer: "/x" },
      },
      { label: "c", telemetry: true, extractor: { kind: "address", from: "source.address" } },
      {
        label: "d",
        telemetry: true,
        extractor: { kind: "jwt", from: "request.http.bearer", pointer: "" },
      },
      {
        label: "e",
        telemetry: true,
        extractor: { kind: "path_templates", templates: { "/a/*": "a" } },
      },
    ],
  },
  ...(
    [
      { kind: "static", bounds: [1, 2.5, 100] },
      { kind: "linear", start: 0, width: 5, count: 3 },
      { kind: "exponential", start: 1, factor: 2, count: 4 },
      { kind: "exponential_range", min: 1, max: 100, count: 5 },
    ] as const
  ).map((buckets) => ({
    kind: "flux_meter" as const,
    policyName: "p",
    name: `meter-${buckets.kind}`,
    attributeKey: "workload_duration_ms",
    buckets,
    selectors: [selector, plain],
  })),
];

const owner = { policyName: "p", policyHash: "h" };
const numbers: readonly LimiterNumbers[] = [
  {
    ...owner,
    kind: "rate_limiter",
    componentId: "root.0",
    bucketCapacity: 0,
    fillAmount: 0,
    passThrough: false,
  },
  {
    ...owner,
    kind: "concurrency_limiter",
    componentId: "root.1",
    maxConcurrency: 2.5,
    passThrough: true,
  },
  {
    ...owner,
    kind: "sampler",
    componentId: "root.2",
    acceptPercentage: 12.5,
    passThroughLabelValues: ["", "vip"],
  },
];

function batchOf(stored: ReadonlyMap<string, Uint8Array>, deletes: readonly string[] = []): Batch {
  const puts = [...stored].map(([key, value]) => ({ key, value, revision: 1 }));
  return { revision: 1, puts, deletes };
}

describe("rules in a store", () => {
  it("come back as they went in, numbers of all zeros included", () => {
    const read = readBatch("default", batchOf(storedRules(rules, numbers)));
    assert.deepEqual([...read.faults], []);
    assert.deepEqual([...read.rules.values()], rules);
    assert.deepEqual([...read.numbers.values()], numbers);
  });

  it("lie under the public keys, once for each agent group, a limiter's rule and numbers under one name", () => {
    const keys = [...storedRules(rules.slice(0, 4), numbers).keys()];
    assert.deepEqual(
      keys.filter((key) => key.includes("agent_group-default-")),
      [
        "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0",
        "/decisions/rate_limiter/agent_group-default-policy-p-component_id-root.0",
        "/config/concurrency_limiter/agent_group-default-policy-p-component_id-root.1",
        "/decisions/concurrency_limiter/agent_group-default-policy-p-component_id-root.1",
        "/config/sampler/agent_group-default-policy-p-component_id-root.2",
        "/decisions/sampler/agent_group-default-policy-p-component_id-root.2",
        "/config/classifiers/agent_group-default-policy-p-classifier_index-3",
      ],
    );
    assert.equal(keys.filter((key) => key.includes("agent_group-prod-")).length, 7);
  });

  it("of a group with a longer name are not taken for ours", async () => {
    const store = memoryStore();
    const longer = rules.map((rule) => ({
      ...rule,
      selectors: [{ ...selector, agentGroup: "default-policy" }],
    }));
    const stored = storedRules(longer, numbers);
    await store.commit([...stored].map(([key, value]) => ({ kind: "put", key, value })));
    const stop = new AbortController();
    const watch = store.watch(agentPrefixes("default"), stop.signal)[Symbol.asyncIterator]();
    const seen: Batch = (await watch.next()).value;
    assert.equal(seen.puts.length, stored.size, "the prefix is shared");
    const read = readBatch("default", seen);
    assert.deepEqual([read.rules.size, read.numbers.size, read.faults.size], [0, 0, 0]);
    stop.abort();
    await watch.return?.(undefined);
  });

  it("that cannot be read are reported one by one and harm no other", () => {
    const stored = new Map(storedRules(rules, numbers));
    const broken = "/config/sampler/agent_group-default-policy-p-component_id-root.2";
    stored.set(broken, new Uint8Array([0xff, 0xff]));
    const read = readBatch("default", batchOf(stored));
    assert.deepEqual([...read.faults.keys()].slice(0, 1), [broken]);
    assert.equal(read.rules.size, rules.length - 1);
  });

  it("of a flux meter without buckets mean the default in milliseconds", () => {
    const value = encode("aperture.policy.sync.v1.FluxMeterWrapper", {
      fluxMeterName: "m",
      policyName: "p",
      fluxMeter: { attributeKey: "x" },
    });
    const key = "/config/flux_meter/agent_group-default-flux_meter-m";
    const [rule] = readBatch("default", batchOf(new Map([[key, value]]))).rules.values();
    assert.ok(rule?.kind === "flux_meter" && rule.buckets.kind === "static");
    assert.deepEqual([rule.buckets.bounds[0], rule.buckets.bounds.at(-1)], [5, 10_000]);
  });

  it("that are gone are named as the ones that were there", () => {
    const stored = storedRules(rules, numbers);
    const there = readBatch("default", batchOf(stored));
    const gone = readBatch("default", batchOf(new Map(), [...stored.keys()]));
    for (const name of there.rules.keys()) {
      assert.ok(gone.rules.has(name) && gone.rules.get(name) === undefined, name);
    }
    for (const name of there.numbers.keys()) assert.ok(gone.numbers.has(name), name);
  });
});
