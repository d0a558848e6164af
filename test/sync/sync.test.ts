// A policy and its decisions, written to a store by one half and read by the other.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CircuitDecision } from "#circuit/decision.ts";
import type { LimiterNumbers, Rule } from "#flow/rules.ts";
import type { AgentConfig, JsonObject } from "#policy/compiled.ts";
import { memoryStore } from "#store/memory.ts";
import type { StoreUpdate } from "#store/store.ts";
import { agentPrefixes, readBatch } from "#sync/follow/batch.ts";
import { decisionEntries } from "#sync/publish/decision.ts";
import { configEntries } from "#sync/publish/policy.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { batchOf } from "../kit/sluice/stored.ts";
import { agentGroups, component, identity, plain, selector, selectors } from "./setup.ts";

type WrapperName = Parameters<typeof encode>[0];

const ADDRESS = { kind: "address", from: "source.address" } as const;

const rules: readonly Rule[] = [
  {
    ...component,
    kind: "rate_limiter",
    componentId: "root.0",
    onFailure: "last_known",
    onMissingLabel: "refuse",
    deniedStatus: 503,
    limitByLabelKey: "user",
    tokensLabelKey: "cost",
    intervalMs: 1_500.25,
    continuousFill: false,
    delayInitialFill: true,
    maxIdleMs: 7_200_000,
    lazySyncs: 4,
    settlement: { timeoutMs: 90_000, unsettled: "refund", refundStatuses: ["5xx", "429"] },
  },
  {
    ...component,
    kind: "concurrency_limiter",
    componentId: "root.1",
    onFailure: "local",
    onMissingLabel: "pass",
    deniedStatus: 0,
    limitByLabelKey: "",
    tokensLabelKey: "",
    maxInflightMs: 60_000,
    maxIdleMs: 0,
    adaptive: { min: 3, max: 90, start: 20, tolerance: 2.5 },
  },
  {
    ...component,
    kind: "sampler",
    componentId: "root.2",
    onFailure: "closed",
    onMissingLabel: "default_key",
    deniedStatus: 403,
    sessionLabelKey: "session",
    rampMode: true,
    hash: "fnv1a",
  },
  {
    kind: "classifier",
    policyName: "p",
    policyHash: "h",
    index: 3,
    selectors: [selector, plain],
    rules: [
      {
        label: "a",
        telemetry: true,
        unreadableValue: "",
        extractor: { kind: "from", from: "request.http.path" },
      },
      {
        label: "b",
        telemetry: false,
        unreadableValue: "none",
        extractor: { kind: "json", from: "request.http.body", pointer: "/x" },
      },
      {
        label: "c",
        telemetry: true,
        unreadableValue: "",
        extractor: { ...ADDRESS, port: true, ipv4Prefix: 32, ipv6Prefix: 128 },
      },
      {
        label: "c2",
        telemetry: true,
        unreadableValue: "",
        extractor: { ...ADDRESS, port: false, ipv4Prefix: 24, ipv6Prefix: 64 },
      },
      {
        label: "c3",
        telemetry: true,
        unreadableValue: "",
        extractor: { kind: "form", from: "request.http.body", name: "user" },
      },
      {
        label: "d",
        telemetry: true,
        unreadableValue: "",
        extractor: { kind: "jwt", from: "request.http.bearer", pointer: "" },
      },
      {
        label: "e",
        telemetry: true,
        unreadableValue: "",
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
    name: `meters/${buckets.kind}/0`,
    attributeKey: "workload_duration_ms",
    buckets,
    selectors: [selector, plain],
  })),
];

const configs: readonly AgentConfig[] = [
  {
    kind: "rate_limiter",
    name: "root.0",
    agentGroups,
    message: {
      selectors,
      parameters: {
        limit_by_label_key: "user",
        interval: "1.500250s",
        continuous_fill: false,
        delay_initial_fill: true,
        max_idle_time: "7200s",
        lazy_sync: { enabled: true, num_sync: 4 },
        settlement: { timeout: "90s", unsettled: "refund", refund_statuses: ["5xx", "429"] },
        on_failure: "last_known",
        on_missing_label: "refuse",
      },
      request_parameters: {
        tokens_label_key: "cost",
        denied_response_status_code: "ServiceUnavailable",
      },
    },
  },
  {
    kind: "concurrency_limiter",
    name: "root.1",
    agentGroups,
    message: {
      selectors,
      parameters: {
        max_inflight_duration: "60s",
        max_idle_time: "0s",
        adaptive: { min: 3, max: 90, tolerance: 2.5 },
      },
    },
  },
  {
    kind: "sampler",
    name: "root.2",
    agentGroups,
    message: {
      parameters: {
        selectors,
        session_label_key: "session",
        ramp_mode: true,
        hash: "fnv1a",
        denied_response_status_code: "Forbidden",
      },
    },
  },
  {
    kind: "classifiers",
    name: "3",
    agentGroups,
    message: {
      selectors,
      rules: {
        a: { telemetry: true, extractor: { from: "request.http.path" } },
        b: {
          telemetry: false,
          unreadable_value: "none",
          extractor: { json: { from: "request.http.body", pointer: "/x" } },
        },
        c: { telemetry: true, extractor: { address: { from: "source.address" } } },
        c2: {
          telemetry: true,
          extractor: {
            address: { from: "source.address", port: false, ipv4_prefix: 24, ipv6_prefix: 64 },
          },
        },
        c3: {
          telemetry: true,
          extractor: { form: { from: "request.http.body", name: "user" } },
        },
        d: { telemetry: true, extractor: { jwt: { from: "request.http.bearer" } } },
        e: {
          telemetry: true,
          extractor: { path_templates: { template_values: { "/a/*": "a" } } },
        },
      },
    },
  },
  ...(
    [
      ["static", { static_buckets: { buckets: [1, 2.5, 100] } }],
      ["linear", { linear_buckets: { start: 0, width: 5, count: 3 } }],
      ["exponential", { exponential_buckets: { start: 1, factor: 2, count: 4 } }],
      ["exponential_range", { exponential_buckets_range: { min: 1, max: 100, count: 5 } }],
    ] as const
  ).map(([kind, buckets]) => ({
    kind: "flux_meter" as const,
    name: `meters/${kind}/0`,
    agentGroups,
    message: { selectors, attribute_key: "workload_duration_ms", ...buckets },
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
    failure: "closed",
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

const policy = { ...identity, configs };

/** The same numbers as a circuit decides them. */
const decisions: readonly CircuitDecision[] = [
  {
    kind: "rate_limiter",
    componentId: "root.0",
    agentGroups,
    bucketCapacity: 0,
    fillAmount: 0,
    passThrough: false,
    failure: "closed",
  },
  {
    kind: "concurrency_limiter",
    componentId: "root.1",
    agentGroups,
    maxConcurrency: 2.5,
    passThrough: true,
  },
  {
    kind: "sampler",
    componentId: "root.2",
    agentGroups,
    acceptPercentage: 12.5,
    passThroughLabelValues: ["", "vip"],
  },
];

/** All entries of the policy and its decisions. */
function stored(
  of: { readonly configs: readonly AgentConfig[] } = policy,
  made: readonly CircuitDecision[] = decisions,
): Map<string, Uint8Array> {
  const entries = new Map(configEntries({ ...identity, configs: of.configs }));
  for (const decision of made) {
    for (const [key, value] of decisionEntries(identity, decision)) {
      if (value !== undefined) entries.set(key, value);
    }
  }
  return entries;
}

describe("a policy and its decisions in a store", () => {
  it("are read back as rules and numbers, numbers that are all zero included", () => {
    const read = readBatch("default", batchOf(stored()));
    assert.deepEqual([...read.faults], []);
    assert.deepEqual([...read.rules.values()], rules);
    assert.deepEqual([...read.numbers.values()], numbers);
  });

  it("are stored under the public keys, one copy per agent group", () => {
    const keys = [...stored({ configs: configs.slice(0, 4) }).keys()].sort();
    assert.deepEqual(
      keys.filter((key) => key.includes("agent_group-default-")),
      [
        "/config/classifiers/agent_group-default-policy-p-classifier_index-3",
        "/config/concurrency_limiter/agent_group-default-policy-p-component_id-root.1",
        "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0",
        "/config/sampler/agent_group-default-policy-p-component_id-root.2",
        "/decisions/concurrency_limiter/agent_group-default-policy-p-component_id-root.1",
        "/decisions/rate_limiter/agent_group-default-policy-p-component_id-root.0",
        "/decisions/sampler/agent_group-default-policy-p-component_id-root.2",
      ],
    );
    assert.equal(keys.filter((key) => key.includes("agent_group-prod-")).length, 7);
  });

  it("are not taken for ours when the group's name only starts with our group's name", async () => {
    const store = memoryStore();
    const group = ["default-policy"];
    const longer = stored(
      {
        configs: configs.map((config) => ({
          ...config,
          agentGroups: group,
          message: ofGroup(config),
        })),
      },
      decisions.map((decision) => ({ ...decision, agentGroups: group })),
    );
    await store.commit([...longer].map(([key, value]) => ({ kind: "put", key, value })));
    const stop = new AbortController();
    const watch = store.watch(agentPrefixes("default"), stop.signal)[Symbol.asyncIterator]();
    const seen: StoreUpdate = (await watch.next()).value;
    assert.equal(seen.puts.length, longer.size, "the watch matches the longer group's keys too");
    const read = readBatch("default", seen);
    assert.deepEqual([read.rules.size, read.numbers.size, read.faults.size], [0, 0, 0]);
    stop.abort();
    await watch.return?.(undefined);
  });

  it("are reported one by one where they cannot be read, and the others are read", () => {
    const entries = stored();
    const broken = "/config/sampler/agent_group-default-policy-p-component_id-root.2";
    entries.set(broken, new Uint8Array([0xff, 0xff]));
    const read = readBatch("default", batchOf(entries));
    assert.deepEqual([...read.faults.keys()].slice(0, 1), [broken]);
    assert.equal(read.rules.size, rules.length - 1);
  });

  it("are refused where the attributes or the component is missing", () => {
    const commonAttributes = { policyName: "p", policyHash: "h", componentId: "root.0" };
    const name = "agent_group-default-policy-p-component_id-root.0";
    const lack = (key: string, wrapper: WrapperName, ...lacking: readonly object[]) => {
      for (const message of lacking) {
        const { faults } = readBatch("default", batchOf([[key, encode(wrapper, message)]]));
        assert.equal(
          faults.get(key)?.message,
          `${wrapper}: wanted attributes and a component, got a message without one of them`,
          JSON.stringify(message),
        );
      }
    };
    for (const [kind, component, wrapper] of [
      ["rate_limiter", "rateLimiter", "RateLimiter"],
      ["concurrency_limiter", "concurrencyLimiter", "ConcurrencyLimiter"],
      ["sampler", "sampler", "Sampler"],
    ] as const) {
      const whole = { [component]: { parameters: {} } };
      const cut = { commonAttributes, [component]: {} };
      lack(`/config/${kind}/${name}`, `aperture.policy.sync.v1.${wrapper}Wrapper`, {}, whole, cut, {
        commonAttributes,
      });
      const decision = { [`${component}Decision`]: {} };
      lack(
        `/decisions/${kind}/${name}`,
        `aperture.policy.sync.v1.${wrapper}DecisionWrapper`,
        {},
        decision,
        { commonAttributes },
      );
    }
    const classifier = "/config/classifiers/agent_group-default-policy-p-classifier_index-0";
    const [without, only] = [{ classifierAttributes: commonAttributes }, { classifier: {} }];
    lack(classifier, "aperture.policy.sync.v1.ClassifierWrapper", {}, without, only);
    const meter = "/config/flux_meter/agent_group-default-flux_meter-m";
    lack(meter, "aperture.policy.sync.v1.FluxMeterWrapper", { fluxMeterName: "m" });
  });

  it("of kinds that agents do not know, and keys of others, are no faults", () => {
    const name = "agent_group-default-policy-p-component_id-root.0";
    for (const key of [`/config/newer_kind/${name}`, `/decisions/newer_kind/${name}`, "/other"]) {
      const read = readBatch("default", batchOf([[key, new Uint8Array([0xff])]]));
      assert.deepEqual([read.rules.size, read.numbers.size, read.faults.size], [0, 0, 0], key);
    }
  });

  it("give a flux meter without buckets the default ones, in milliseconds", () => {
    const value = encode("aperture.policy.sync.v1.FluxMeterWrapper", {
      fluxMeterName: "m",
      policyName: "p",
      fluxMeter: { attributeKey: "x" },
    });
    const key = "/config/flux_meter/agent_group-default-flux_meter-m";
    const [rule] = readBatch("default", batchOf(new Map([[key, value]]))).rules.values();
    assert.ok(rule?.kind === "flux_meter" && rule.buckets.kind === "static");
    const bounds = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];
    assert.deepEqual(rule.buckets.bounds, bounds);
  });

  it("are read with the deprecated keys of other controllers, which current keys override", () => {
    const commonAttributes = { policyName: "p", policyHash: "h", componentId: "root.0" };
    const requirement = (key: string) => ({ key, operator: "Exists", values: [] });
    const read = (parameters: object, labelMatcher: object) => {
      const value = encode("aperture.policy.sync.v1.RateLimiterWrapper", {
        commonAttributes,
        rateLimiter: {
          selectors: [{ controlPoint: "ingress", agentGroup: "default", labelMatcher }],
          parameters: { interval: { seconds: 1, nanos: 0 }, ...parameters },
        },
      });
      const key = "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0";
      const { rules: found, faults } = readBatch("default", batchOf([[key, value]]));
      assert.deepEqual([...faults], []);
      const [rule] = found.values();
      assert.ok(rule?.kind === "rate_limiter");
      const [first] = rule.selectors;
      return {
        limitBy: rule.limitByLabelKey,
        lazySyncs: rule.lazySyncs,
        service: first?.service,
        list: first?.matcher.list.map(({ key: label }) => label),
      };
    };
    const service = "any";
    assert.deepEqual(
      read(
        { labelKey: "old", lazySync: { enabled: false, numSync: 4 } },
        { matchExpressions: [requirement("old")] },
      ),
      { limitBy: "old", lazySyncs: 0, service, list: ["old"] },
    );
    assert.deepEqual(
      read(
        { labelKey: "old", limitByLabelKey: "new", lazySync: { enabled: true, numSync: 4 } },
        { matchExpressions: [requirement("old")], matchList: [requirement("new")] },
      ),
      { limitBy: "new", lazySyncs: 4, service, list: ["new"] },
    );
  });

  it("a sampler's former label key counts where the current one is absent", () => {
    const read = (parameters: object) => {
      const value = encode("aperture.policy.sync.v1.SamplerWrapper", {
        commonAttributes: { policyName: "p", policyHash: "h", componentId: "root.0" },
        sampler: { parameters },
      });
      const key = "/config/sampler/agent_group-default-policy-p-component_id-root.0";
      const [rule] = readBatch("default", batchOf([[key, value]])).rules.values();
      assert.ok(rule?.kind === "sampler");
      return rule.sessionLabelKey;
    };
    assert.equal(read({ labelKey: "old" }), "old");
    assert.equal(read({ labelKey: "old", sessionLabelKey: "new" }), "new");
    assert.equal(read({}), "");
  });

  it("without Sluice's own fields mean what is usual for their kind", () => {
    const common = {
      commonAttributes: { policyName: "p", policyHash: "h", componentId: "root.0" },
    };
    const read = (kind: string, bytes: Uint8Array) => {
      const key = `/config/${kind}/agent_group-default-policy-p-component_id-root.0`;
      const [rule] = readBatch("default", batchOf(new Map([[key, bytes]]))).rules.values();
      assert.ok(rule !== undefined && "onFailure" in rule);
      return [rule.onFailure, rule.onMissingLabel, "hash" in rule ? rule.hash : undefined];
    };
    const sampler = (rampMode: boolean) =>
      encode("aperture.policy.sync.v1.SamplerWrapper", {
        ...common,
        sampler: { parameters: { rampMode, labelKey: "old" } },
      });
    const rate = encode("aperture.policy.sync.v1.RateLimiterWrapper", {
      ...common,
      rateLimiter: { parameters: {} },
    });
    assert.deepEqual(read("rate_limiter", rate), ["local", "pass", undefined]);
    const key = "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0";
    const [limiter] = readBatch("default", batchOf([[key, rate]])).rules.values();
    assert.ok(limiter?.kind === "rate_limiter");
    assert.deepEqual([limiter.deniedStatus, limiter.tokensLabelKey], [0, ""]);
    assert.deepEqual(read("sampler", sampler(false)), ["open", "default_key", "mixed"]);
    assert.deepEqual(read("sampler", sampler(true)), ["closed", "default_key", "mixed"]);
  });

  it("with a mode that this version does not know are refused, not taken for another mode", () => {
    const bytes = encode("aperture.policy.sync.v1.RateLimiterWrapper", {
      commonAttributes: { policyName: "p", policyHash: "h", componentId: "root.0" },
      rateLimiter: { parameters: { onFailure: "shut" } },
    });
    const key = "/config/rate_limiter/agent_group-default-policy-p-component_id-root.0";
    const { faults, rules } = readBatch("default", batchOf(new Map([[key, bytes]])));
    assert.equal(rules.size, 0);
    assert.equal(
      faults.get(key)?.message,
      'on_failure: wanted one of open, closed, local, last_known, got "shut"',
    );
  });

  it("are deleted under the names under which they were put", () => {
    const entries = stored();
    const there = readBatch("default", batchOf(entries));
    const gone = readBatch("default", batchOf([], [...entries.keys()]));
    for (const name of there.rules.keys()) {
      assert.ok(gone.rules.has(name) && gone.rules.get(name) === undefined, name);
    }
    for (const name of there.numbers.keys()) assert.ok(gone.numbers.has(name), name);
  });

  it("are read without a classifier's Rego module, and the result says so", () => {
    const config: AgentConfig = {
      kind: "classifiers",
      name: "0",
      agentGroups: ["default"],
      message: {
        rules: { a: { extractor: { from: "request.http.path" } } },
        rego: { labels: { b: { telemetry: true } }, module: "package x\nb = 1" },
      },
    };
    const key = "/config/classifiers/agent_group-default-policy-p-classifier_index-0";
    const read = readBatch("default", batchOf(stored({ configs: [config] }, [])));
    const [rule] = read.rules.values();
    assert.ok(rule?.kind === "classifier");
    assert.deepEqual(
      rule.rules.map(({ label }) => label),
      ["a"],
    );
    assert.deepEqual(rule.rego, ["b"]);
    assert.deepEqual([...read.notRun], [[key, "rego"]]);
    assert.equal(read.faults.size, 0);
  });
});

/** The message, with its selectors moved to another group. */
function ofGroup({ message }: AgentConfig): JsonObject {
  return JSON.parse(JSON.stringify(message).replaceAll('"default"', '"default-policy"'));
}
