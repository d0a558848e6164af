// Defaults of the language.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { RateLimiterRule } from "#flow/rules.ts";
import { rulesOf } from "../../kit/sluice/stored.ts";
import { CONSTANT_PORTS, circuit, compiled, rateLimiter } from "../kit.ts";

describe("defaults", () => {
  const rule = (parameters: string): RateLimiterRule => {
    const [only] = rulesOf(compiled(circuit(rateLimiter(CONSTANT_PORTS, parameters))));
    assert.equal(only?.kind, "rate_limiter");
    return only;
  };
  test("absent takes the default, null is absent", () => {
    for (const text of ["", ", continuous_fill: null, max_idle_time: ~"]) {
      const got = rule(`parameters: {interval: 1s${text}}`);
      assert.equal(got.continuousFill, true);
      assert.equal(got.maxIdleMs, 7_200_000);
      assert.equal(got.selectors[0]?.agentGroup, "default");
      assert.equal(got.selectors[0]?.service, "any");
    }
  });
  test("explicit zero and false are kept", () => {
    const got = rule("parameters: {interval: 1s, continuous_fill: false, max_idle_time: 0s}");
    assert.equal(got.continuousFill, false);
    assert.equal(got.maxIdleMs, 0);
  });
  test("defaults inside a part apply only where the part is written", () => {
    assert.equal(rule("parameters: {interval: 1s, lazy_sync: {enabled: true}}").lazySyncs, 4);
    assert.equal(rule("parameters: {interval: 1s, lazy_sync: {}}").lazySyncs, 0);
    assert.equal(rule("parameters: {interval: 1s}").lazySyncs, 0);
  });
  test("status by name and by number", () => {
    for (const status of ["PaymentRequired", "402"]) {
      const request = `request_parameters: {denied_response_status_code: ${status}}`;
      assert.equal(rule(`parameters: {interval: 1s}, ${request}`).deniedStatus, 402);
    }
  });
  test("without a status the stage that refuses chooses it", () => {
    assert.equal(rule("parameters: {interval: 1s}, request_parameters: {}").deniedStatus, 0);
    assert.equal(rule("parameters: {interval: 1s}").deniedStatus, 0);
    const empty = "request_parameters: {denied_response_status_code: Empty}";
    assert.equal(rule(`parameters: {interval: 1s}, ${empty}`).deniedStatus, 0);
  });
});
