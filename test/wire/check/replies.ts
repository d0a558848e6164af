// Generated replies of every kind, for the tests of their writers.

import fc from "fast-check";
import type { ReportedDecision } from "#wire/check/decisions/reported-decision.ts";
import type { HttpAnswer } from "#wire/check/http-reply.ts";
import {
  type CheckReply,
  type FlowEndReply,
  KeyList,
  type ReturnStatus,
} from "#wire/check/response.ts";

export const text = fc.oneof(
  fc.string({ maxLength: 10 }),
  fc.string({ unit: "grapheme", maxLength: 100 }),
  fc.string({ minLength: 126, maxLength: 131 }),
);
const status = fc.constantFrom(0, 200, 402, 403, 429, 503, 599);
const wall = fc.oneof(
  fc.constantFrom(0, 1, 1_700_000_000_000, 1_700_000_000_000.5, 1_700_000_000_123.456, 999.9999999),
  fc.double({ min: 0, max: 4e12, noNaN: true }),
);
const number = fc.oneof(
  fc.constantFrom(0, 1, 0.1, 1e21, 1e-7, Number.MAX_VALUE),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: 0 }),
);
// The same objects appear in later replies, as they do while a plan is in force.
export const components = fc.sample(
  fc.record({
    policyName: text,
    policyHash: text,
    componentId: text,
    kind: fc.constantFrom(
      ...(["rate_limiter", "concurrency_limiter", "sampler", "ramp_sampler"] as const),
      ...(["load_scheduler", "quota_scheduler", "concurrency_scheduler"] as const),
    ),
    deniedStatus: status,
  }),
  { numRuns: 20, seed: 4 },
);
const classifiers = fc.sample(
  fc.record({
    policyName: text,
    policyHash: text,
    classifierIndex: fc.nat(),
    error: fc.nat({ max: 5 }),
    unreadable: fc.constantFrom(undefined, "malformed"),
  }),
  { numRuns: 6, seed: 4 },
);
/** A decision with the fields of every kind: writers use those of its component's kind. */
export interface FullDecision extends ReportedDecision {
  readonly detail: {
    readonly label: string;
    readonly value: string | undefined;
    readonly remaining: number;
    readonly current: number;
    readonly consumed: number;
    readonly requestId: string;
    readonly workload: string;
    readonly priority: number;
  };
}

export const decision: fc.Arbitrary<FullDecision> = fc.record({
  component: fc.constantFrom(...components),
  dropped: fc.boolean(),
  missing: fc.constantFrom(0, 1, 2, 4, 6),
  waitMs: fc.oneof(fc.constantFrom(-1, 0), fc.double({ min: 0, max: 1e9, noNaN: true })),
  failure: fc.constantFrom(undefined, "open", "last_known"),
  detail: fc.record({
    label: text,
    value: fc.constant(undefined),
    remaining: number,
    current: number,
    consumed: number,
    requestId: text,
    workload: text,
    priority: number,
  }),
});
export interface FullReply extends CheckReply {
  readonly decisions: readonly FullDecision[];
}

const cacheAnswer = fc.record({ missed: fc.boolean(), error: fc.constantFrom("", "gone") });
const label = fc
  .string({ maxLength: 9 })
  .filter((name) => name !== "__proto__" && !/^\d/.test(name));
export const reply: fc.Arbitrary<FullReply> = fc.record({
  start: wall,
  end: wall,
  services: fc.array(text, { maxLength: 3 }),
  controlPoint: text,
  keys: fc.array(text, { maxLength: 5 }).map((keys) => new KeyList(keys)),
  telemetry: fc
    .uniqueArray(fc.tuple(label, text), { maxLength: 5, selector: ([name]) => name })
    .map((pairs) => pairs.flat()),
  accepted: fc.boolean(),
  reason: fc.nat({ max: 4 }),
  classifiers: fc.array(fc.constantFrom(...classifiers), { maxLength: 3 }),
  fluxMeters: fc.array(text, { maxLength: 3 }),
  decisions: fc.array(decision, { maxLength: 4 }),
  waitMs: fc.constantFrom(0, 1, 1500.25),
  deniedStatus: status,
  cache: fc.option(
    fc.record({
      result: fc.option(cacheAnswer, { nil: undefined }),
      global: fc.array(fc.tuple(label, cacheAnswer), { maxLength: 2 }).map((all) => new Map(all)),
    }),
    { nil: undefined },
  ),
  expectEnd: fc.boolean(),
  reservationId: text,
});
export const answer: fc.Arbitrary<HttpAnswer> = fc.record({
  check: reply,
  deniedStatus: fc.constantFrom(403, 429, 599),
  refusal: fc.constantFrom("", "the path is odd"),
  retryAfter: fc.constantFrom(0, 1, 77),
  baggage: fc.constantFrom(undefined, "", "a=b", 'k="odd"', `k=${"x".repeat(200)}`),
});

const statuses: fc.Arbitrary<ReturnStatus[]> = fc.array(
  fc.record({
    ref: fc.record({
      policyName: text,
      policyHash: text,
      componentId: text,
      label: text,
      requestId: text,
      tokens: number,
    }),
    returned: fc.boolean(),
    error: text,
  }),
);

export const flowEnds: fc.Arbitrary<FlowEndReply> = fc.record({
  slots: statuses,
  settlement: fc.constantFrom(
    undefined,
    { settled: true, error: "" },
    { settled: false, error: "elsewhere" },
  ),
});
