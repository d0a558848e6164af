// Replies whose decisions are written by a template of an earlier reply: they must equal those of a writer that has
// no templates yet.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { detailWriter } from "#wire/check/decisions/limiter-details.ts";
import type { ReportedComponent } from "#wire/check/decisions/reported-decision.ts";
import { HttpAnswerWriter } from "#wire/check/http-reply.ts";
import { type Fragment, Template } from "#wire/protobuf/base64.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { type FullDecision, type FullReply, reply } from "./replies.ts";

const COMPONENTS: readonly ReportedComponent[] = [
  "rate_limiter" as const,
  "concurrency_limiter" as const,
  "sampler" as const,
  "rate_limiter" as const,
  "quota_scheduler" as const,
  "concurrency_scheduler" as const,
].map((kind, at) => ({
  policyName: `policy-${at}`,
  policyHash: "hash",
  componentId: "root.0",
  kind,
  deniedStatus: at === 3 ? 429 : 0,
}));

/** Values of one length, and seldom another one: only decisions of the same form are written by a template. */
const mostly = <T>(usual: readonly T[], odd: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  );

const none = { workload: "", priority: 0 };
const amount = mostly([1, 0.1, 7e9], [0]);
const value = mostly(["ann", "bob", "eve"], ["", "zoë", "a longer one", "x".repeat(70)]);

/** Decisions of these components, most of them usual. */
const decisionsOf = (
  components: readonly ReportedComponent[],
): fc.Arbitrary<readonly FullDecision[]> =>
  fc
    .tuple(
      value,
      fc.array(
        fc.record({
          own: fc.option(value, { nil: undefined, freq: 4 }),
          odd: mostly([false], [true]),
          remaining: amount,
          current: amount,
          consumed: amount,
          requestId: mostly(["id-1", "id-2"], ["", "ïd"]),
          workload: mostly(["gold", "iron"], ["", "ö", "w".repeat(300)]),
          priority: mostly([1, 0.5], [0]),
        }),
        { minLength: components.length, maxLength: components.length },
      ),
    )
    .map(([shared, details]) =>
      components.map((component, at) => {
        const { own, odd = false, ...rest } = details[at] ?? {};
        const detail = { remaining: 0, current: 0, consumed: 0, requestId: "", ...none, ...rest };
        const label = own ?? shared;
        return {
          component,
          dropped: odd,
          missing: 0,
          waitMs: component.kind === "sampler" ? -1 : 0,
          failure: undefined,
          detail: { ...detail, label: `user:${label}`, value: label },
        };
      }),
    );

/** Replies of one control point, now and then with another set of components. */
const sequence = fc
  .array(
    fc
      .subarray([...COMPONENTS], { minLength: 1 })
      .chain((components) =>
        fc.array(decisionsOf(components), { minLength: 1, maxLength: 20, size: "max" }),
      ),
    { minLength: 1, maxLength: 3 },
  )
  .map((parts) => parts.flat());

function fragmentsIn(work: () => unknown): readonly Fragment[] {
  const found: Fragment[] = [];
  const { fragment } = ProtoWriter.prototype;
  ProtoWriter.prototype.fragment = function (this: ProtoWriter, given: Fragment, place?: number) {
    found.push(given);
    return fragment.call(this, given, place ?? this.place);
  };
  try {
    work();
  } finally {
    ProtoWriter.prototype.fragment = fragment;
  }
  return found;
}

describe("decisions that are written by a template", () => {
  it("equal those that are written without one, in every reply of a sequence", () => {
    let replies = 0;
    let byTemplate = 0;
    fc.assert(
      fc.property(reply, sequence, (first, all) => {
        const writer = new HttpAnswerWriter();
        for (const given of all) {
          const check: FullReply = { ...first, decisions: given };
          const answer = {
            check,
            deniedStatus: 403,
            refusal: "",
            retryAfter: 0,
            baggage: undefined,
          };
          const wanted = new HttpAnswerWriter().writeAuth(answer);
          const used = fragmentsIn(() => assert.deepEqual(writer.writeAuth(answer), wanted));
          replies += 1;
          if (used.some((fragment) => fragment instanceof Template)) byTemplate += 1;
          assert.deepEqual(writer.writeCheck(check), new HttpAnswerWriter().writeCheck(check));
          assert.deepEqual(
            writer.writeCheckHttp(answer),
            new HttpAnswerWriter().writeCheckHttp(answer),
          );
        }
      }),
      { numRuns: 60, seed: 1 },
    );
    // With this seed, enough of both kinds.
    assert.ok(byTemplate > 100 && byTemplate < replies, `${byTemplate} of ${replies}`);
  });

  it("are one fragment from the second reply on", () => {
    const writer = new HttpAnswerWriter();
    const [first] = fc.sample(reply, { numRuns: 1, seed: 1 });
    assert.ok(first !== undefined);
    const check = (user: string): FullReply => ({
      ...first,
      classifiers: [],
      decisions: COMPONENTS.map((component) => ({
        component,
        dropped: false,
        missing: 0,
        waitMs: 0,
        failure: undefined,
        detail: {
          label: `user:${user}`,
          value: user,
          remaining: 4,
          current: 1,
          consumed: 1,
          requestId: "id",
          workload: "gold",
          priority: 2,
        },
      })),
    });
    const fragments = (user: string) => fragmentsIn(() => writer.writeCheck(check(user)));
    // One is that of the label keys.
    assert.equal(fragments("ann").length, 1 + COMPONENTS.length);
    const [second, third] = [fragments("bob"), fragments("eve")];
    assert.equal(second.length, 2);
    assert.equal(second[1], third[1]);
  });
});

it("the length of a detail is that of its bytes", () => {
  fc.assert(
    fc.property(fc.constantFrom(...COMPONENTS), decisionsOf(COMPONENTS), ({ kind }, [given]) => {
      assert.ok(given !== undefined);
      const [row, out] = [detailWriter(kind), new ProtoWriter()];
      row.write(out, given.detail);
      assert.equal(row.length(given.detail), out.length);
    }),
  );
});
