import assert from "node:assert/strict";
import { test } from "node:test";
import { loggedDecisionFromJson } from "#wire/check-json/logged-decision.ts";

/** The decision without the part that `checkOf` shows. */
function decisionOf(text: string) {
  const { check: _, ...decision } = loggedDecisionFromJson(text);
  return decision;
}

function checkOf(message: object) {
  const { check } = loggedDecisionFromJson(JSON.stringify(message));
  assert.ok(check !== undefined);
  const { labels, ...times } = check;
  return { ...times, user: labels("user_id"), inherited: labels("toString") };
}

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
    assert.deepEqual(decisionOf(JSON.stringify(camel)), wanted);
    const snake = JSON.stringify(camel).replaceAll(
      /"([a-z]+[A-Z]\w*)":/g,
      (_, name: string) =>
        `"${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}":`,
    );
    assert.deepEqual(decisionOf(snake), wanted);
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
    assert.deepEqual(decisionOf(text), nothing);
});

test("the check itself: its control point, its times cut to milliseconds, and its labels by their own names", () => {
  const start = "2026-01-01T00:00:00.001999Z";
  const end = "2026-01-01T00:00:00.002Z";
  const labels = { user_id: "ann" };
  const wanted = {
    controlPoint: "feature",
    startMs: 1_767_225_600_001,
    endMs: 1_767_225_600_002,
    user: "ann",
    inherited: undefined,
  };
  const camel = { controlPoint: "feature", start, end, telemetryFlowLabels: labels };
  const snake = { control_point: "feature", start, end, telemetry_flow_labels: labels };
  assert.deepEqual(checkOf(camel), wanted);
  assert.deepEqual(checkOf(snake), wanted);
  const unreadable = { controlPoint: 7, start: {}, end: "soon", telemetryFlowLabels: "ann" };
  assert.deepEqual(checkOf(unreadable), {
    controlPoint: "",
    startMs: Number.NaN,
    endMs: Number.NaN,
    user: undefined,
    inherited: undefined,
  });
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
