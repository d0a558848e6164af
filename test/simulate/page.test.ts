// docs/scenarios.md has every key and every limit of the schemas, and its example can be parsed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { MODEL_SERIES } from "#simulate/run/names.ts";
import { LIMITS, MAX_ATTEMPTS } from "#simulate/scenario/bounds.ts";
import { faultsOf, scenarioOf } from "./scenarios.ts";

const PAGE = readFileSync(join(import.meta.dirname, "../../docs/scenarios.md"), "utf8");

/** Keys that a schema accepts, from its message about an unknown one. */
function keysWhere(text: string): readonly string[] {
  const listed = faultsOf(text).flatMap((fault) => {
    const found = /: wanted a key of [^:]*: (.*), got the unknown key "zzzzzzzzzzz"$/.exec(fault);
    return found?.[1]?.split(", ") ?? [];
  });
  assert.ok(listed.length > 0, `${text}: ${faultsOf(text).join("\n")}`);
  return listed;
}

const ODD = "{ zzzzzzzzzzz: 1 }";

describe("the page on scenarios", () => {
  for (const place of [
    ODD,
    `{ phases: [${ODD}] }`,
    `{ services: [${ODD}] }`,
    `{ services: [{ rate: ${ODD} }] }`,
    `{ services: [{ rate: { sine: ${ODD} } }] }`,
    `{ services: [{ rate: { steps: [${ODD}] } }] }`,
    `{ services: [{ service_time: ${ODD} }] }`,
    `{ services: [{ service_time: { lognormal: ${ODD} } }] }`,
    `{ services: [{ mix: [${ODD}] }] }`,
    `{ services: [{ retries: ${ODD} }] }`,
    `{ series: [${ODD}] }`,
    `{ series: [{ recording: ${ODD} }] }`,
    `{ dynamic_config: [${ODD}] }`,
    `{ expect: [${ODD}] }`,
    `{ expect: [{ latency: ${ODD} }] }`,
    `{ expect: [{ refused_share: ${ODD} }] }`,
    `{ expect: [{ reversals: ${ODD} }] }`,
    `{ plot: [${ODD}] }`,
  ]) {
    it(`names the keys of ${place}`, () => {
      const written = [...PAGE.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code ?? "");
      const words = new Set(written.flatMap((code) => code.split(/[^a-z_0-9]+/)));
      assert.deepEqual(
        keysWhere(place).filter((key) => !words.has(key)),
        [],
      );
    });
  }

  it("names the lines of services", () => {
    const missing = Object.keys(MODEL_SERIES).filter((name) => !PAGE.includes(`\`${name}\``));
    assert.deepEqual(missing, []);
  });

  it("names the bounds", () => {
    const spaced = (bound: number) => String(bound).replaceAll(/\B(?=(\d{3})+$)/g, " ");
    const missing = [MAX_ATTEMPTS, ...Object.values(LIMITS)]
      .map(spaced)
      .filter((bound) => !new RegExp(`[|;] ${bound}[; ]`).test(PAGE));
    assert.deepEqual(missing, []);
  });

  it("has an example that can be read", () => {
    const [, example = ""] = /```yaml\n([^`]*)```/.exec(PAGE) ?? [];
    assert.equal(scenarioOf(example).services.length, 1);
  });
});
