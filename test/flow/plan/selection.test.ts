// The rules that apply to a flow: selectors against a naive oracle, by service, group and control point.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { seededChance } from "#base/chance.ts";
import { type HttpAttributes, Pending } from "#flow/flow.ts";
import { createFlowController } from "#flow/flow-controller.ts";
import type { LabelSource } from "#flow/label.ts";
import { Rulebook } from "#flow/rulebook.ts";
import type {
  ClassifierRule,
  FluxMeterRule,
  MatcherRule,
  Rule,
  SelectorRule,
} from "#flow/rules.ts";
import { fakeClock } from "../../kit/clock.ts";
import { claims, flowOf, recordingObserver } from "../../kit/sluice/flow.ts";

const EVERYTHING: MatcherRule = { labels: {}, list: [], expression: undefined };

const REQUEST: HttpAttributes = {
  method: "GET",
  path: "/",
  host: "",
  scheme: "",
  protocol: "",
  body: "",
  bodyCut: false,
  size: 0,
  id: "",
  header: () => undefined,
  metadata: () => undefined,
  source: undefined,
  destination: undefined,
};

function meter(name: string, selectors: readonly SelectorRule[]): FluxMeterRule {
  return {
    kind: "flux_meter",
    policyName: "p",
    name,
    attributeKey: "x",
    buckets: { kind: "static", bounds: [1] },
    selectors,
  };
}

function selector(over: Partial<SelectorRule> = {}): SelectorRule {
  return {
    controlPoint: "here",
    agentGroup: "default",
    service: "any",
    matcher: EVERYTHING,
    ...over,
  };
}

function agent(rules: readonly Rule[]) {
  const world = {
    clock: fakeClock(),
    chance: seededChance(1),
    observer: recordingObserver(),
    maxKeys: 1_000,
  };
  const book = new Rulebook("default", world);
  const refused = book.apply({
    rules: new Map(rules.map((rule, at) => [`${at}`, rule])),
    numbers: new Map(),
  });
  assert.deepEqual(refused, []);
  const controller = createFlowController(book, world);
  return (flow: Parameters<typeof flowOf>[0]) => {
    const verdict = controller.judge(flowOf(flow));
    assert.ok(!(verdict instanceof Pending));
    return verdict;
  };
}

describe("selectors", () => {
  const service = fc.constantFrom("any", "cart", "shop", "pay");
  const anySelector = fc
    .record({
      controlPoint: fc.constantFrom("here", "there"),
      agentGroup: fc.constantFrom("default", "other"),
      service,
      tier: fc.constantFrom(undefined, "gold", "free"),
    })
    .map(({ tier, ...rest }) => ({
      ...rest,
      matcher: tier === undefined ? EVERYTHING : { ...EVERYTHING, labels: { tier } },
    }));
  const someRules = fc.array(fc.array(anySelector, { minLength: 1, maxLength: 4 }), {
    minLength: 1,
    maxLength: 5,
  });
  const someFlow = fc.record({
    controlPoint: fc.constantFrom("here", "there", "nowhere"),
    services: fc.uniqueArray(fc.constantFrom("cart", "shop", "pay", "unknown"), { maxLength: 3 }),
    tier: fc.constantFrom("gold", "free", "none"),
  });

  it("select a rule once when any of them matches, whatever the services of the flow", () => {
    fc.assert(
      fc.property(someRules, fc.array(someFlow, { minLength: 1, maxLength: 4 }), (all, flows) => {
        const ask = agent(all.map((selectors, at) => meter(`m${at}`, selectors)));
        for (const { controlPoint, services, tier } of flows) {
          const named: readonly string[] = services;
          const leads = (one: SelectorRule) =>
            one.agentGroup === "default" &&
            one.controlPoint === controlPoint &&
            (one.service === "any" || named.includes(one.service)) &&
            (one.matcher.labels["tier"] ?? tier) === tier;
          const wanted = all.flatMap((selectors, at) => (selectors.some(leads) ? [`m${at}`] : []));
          const { fluxMeters } = ask({ controlPoint, services, claims: { tier } });
          assert.deepEqual([...fluxMeters].sort(), wanted.sort());
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("a check", () => {
  it("reads no label that only rules at other control points need, however many there are", () => {
    const foreign = Array.from({ length: 1_000 }, (_, at) =>
      meter(`m${at}`, [
        selector({
          controlPoint: `p${at}`,
          matcher: { ...EVERYTHING, labels: { [`l${at}`]: "x" } },
        }),
      ]),
    );
    const own = meter("own", [selector({ matcher: { ...EVERYTHING, labels: { tier: "gold" } } })]);
    const ask = agent([...foreign, own]);
    const read: string[] = [];
    const source: LabelSource = {
      ...claims({ tier: "gold" }),
      get: (key) => {
        read.push(key.name);
        return claims({ tier: "gold" }).get(key);
      },
    };
    assert.deepEqual(ask({ labels: source }).fluxMeters, ["own"]);
    assert.deepEqual(read, ["tier"]);
  });

  it("matches meters by the final labels, and classifiers by the labels that arrived", () => {
    const classifier = (
      index: number,
      label: string,
      selectors: readonly SelectorRule[],
    ): ClassifierRule => ({
      kind: "classifier",
      policyName: "p",
      policyHash: "h",
      index,
      selectors,
      rules: [
        {
          label,
          telemetry: true,
          unreadableValue: "",
          extractor: { kind: "from", from: "request.http.method" },
        },
      ],
    });
    const made = { ...EVERYTHING, labels: { verb: "GET" } };
    const ask = agent([
      classifier(0, "verb", [selector()]),
      classifier(1, "second", [selector({ matcher: made })]),
      meter("seen", [selector({ matcher: made })]),
    ]);
    const verdict = ask({ http: REQUEST });
    assert.deepEqual(
      verdict.classifiers.map(({ classifierIndex }) => classifierIndex),
      [0],
    );
    assert.deepEqual(verdict.fluxMeters, ["seen"]);
  });

  it("runs classifiers in order of policy and index, and the last one of a label counts", () => {
    const named = (policyName: string, index: number): ClassifierRule => ({
      kind: "classifier",
      policyName,
      policyHash: "h",
      index,
      selectors: [selector()],
      rules: [
        {
          label: "who",
          telemetry: true,
          unreadableValue: "",
          extractor: { kind: "from", from: `request.http.headers.${policyName}-${index}` },
        },
      ],
    });
    const inOrder = [named("a", 2), named("a", 10), named("b", 1)];
    fc.assert(
      fc.property(
        fc.shuffledSubarray(inOrder, { minLength: inOrder.length, maxLength: inOrder.length }),
        (given) => {
          const verdict = agent(given)({ http: { ...REQUEST, header: (name) => name } });
          assert.deepEqual(
            verdict.classifiers.map(({ policyName, classifierIndex }) => [
              policyName,
              classifierIndex,
            ]),
            inOrder.map(({ policyName, index }) => [policyName, index]),
          );
          const labels = [...verdict.labels.classifierLabels()];
          assert.deepEqual(
            labels.map(({ name, value }) => [name, value]),
            [["who", "b-1"]],
          );
        },
      ),
    );
  });
});
