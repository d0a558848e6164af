import assert from "node:assert/strict";
import { test } from "node:test";
import { loggedDecisionFromJson } from "#wire/check-json/logged-decision.ts";

const SLOT = {
  policyName: "p",
  policyHash: "h",
  componentId: "root.0",
  label: "default",
  requestId: "r",
  tokens: 2,
};

test("names in either spelling, enums as numbers or names, members that nobody reads as anything", () => {
  for (const [decisionType, accepted] of [
    [1, false],
    ["DECISION_TYPE_REJECTED", false],
    [0, true],
    ["DECISION_TYPE_ACCEPTED", true],
    [undefined, true],
  ] as const) {
    const camel = {
      decisionType,
      start: "2026-01-01T00:00:00Z",
      waitTime: "0.5000000s",
      fluxMeterInfos: [{ fluxMeterName: "a" }, { fluxMeterName: "b" }, { fluxMeterName: "a" }],
      limiterDecisions: [
        {
          policyName: "p",
          policyHash: "h",
          componentId: "root.0",
          dropped: false,
          reason: 0,
          concurrencyLimiterInfo: {
            label: "default",
            requestId: "r",
            tokensInfo: { remaining: 0, consumed: 2 },
          },
        },
        { policyName: "p", rateLimiterInfo: { label: "default" } },
        { concurrencyLimiterInfo: { requestId: "" } },
        null,
      ],
      expectEnd: true,
      reservationId: "id",
    };
    const wanted = {
      accepted,
      fluxMeters: ["a", "b"],
      slots: [SLOT],
      workloads: [],
      expectEnd: true,
      reservationId: "id",
    };
    assert.deepEqual(loggedDecisionFromJson(JSON.stringify(camel)), wanted);
    const snake = JSON.stringify(camel).replaceAll(
      /"([a-z]+[A-Z]\w*)":/g,
      (_, name: string) =>
        `"${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}":`,
    );
    assert.deepEqual(loggedDecisionFromJson(snake), wanted);
  }
  const nothing = {
    accepted: true,
    fluxMeters: [],
    slots: [],
    workloads: [],
    expectEnd: false,
    reservationId: "",
  };
  for (const text of [
    "{}",
    '{"fluxMeterInfos":{},"limiterDecisions":7,"expectEnd":"yes","reservationId":7}',
  ])
    assert.deepEqual(loggedDecisionFromJson(text), nothing);
});

test("what is no JSON, too long or too many is refused", () => {
  const many = (name: string, count: number, item: (at: number) => object) =>
    JSON.stringify({ [name]: Array.from({ length: count }, (_, at) => item(at)) });
  for (const text of [
    "{",
    `{"x":"${"y".repeat(262_144)}"}`,
    many("fluxMeterInfos", 1_001, (at) => ({ fluxMeterName: String(at) })),
    many("limiterDecisions", 1_001, () => ({ concurrencyLimiterInfo: { requestId: "r" } })),
  ])
    assert.throws(() => loggedDecisionFromJson(text), { code: "INVALID_ARGUMENT" });
  const deep = `{"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  assert.equal(loggedDecisionFromJson(deep).accepted, true);
});
