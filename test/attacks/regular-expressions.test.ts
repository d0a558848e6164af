// Clients that send header values for which the regular expressions of policies take long. All checks share one event loop,
// so the work of one is bounded, and a flow whose values are too long for that is answered by the failure mode of the rule.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WORK_PER_CHECK } from "#flow/match/work.ts";
import { countRegexWork } from "../kit/attack/regex-work.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { counted } from "../kit/sluice/scrape.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const CAPACITY = 3;

/** A limit at a control point for requests whose header `x` matches; `mode` is its `on_failure`. */
const limit = (point: string, regex: string, mode?: string) => `
    - flow_control:
        rate_limiter:
          in_ports:
            bucket_capacity: { constant_signal: { value: ${CAPACITY} } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 3600s${mode === undefined ? "" : `, on_failure: ${mode}`} }
          selectors:
            - control_point: ${point}
              label_matcher: { expression: { label_matches: { label: http.request.header.x, regex: "${regex}" } } }`;

/** Its automaton is too large. Values of more than 72 characters are not tested. */
const LARGE = "a[ab]{900}[0-9]";
/** The same with 2 730 characters. */
const SMALLER = "a[ab]{20}[0-9]";
/** Its automaton is small. */
const USUAL = "^/v[0-9]+/.*/orders$";

const POLICY = `circuit:
  components:${limit("open", LARGE, "open")}${limit("closed", LARGE, "closed")}${limit("unset", LARGE)}
${limit("smaller", SMALLER, "closed")}${limit("usual", USUAL, "closed")}
${[..."cdefghijklmnopqrstuvw"].map((other) => limit("many", `a[ab]{20}[0-9${other}]`, "open")).join("")}
`;

/** Header values of the three sizes that took 37, 309 and 797 ms. */
const SIZES = [1_000, 8_000, 60_000];
const attack = (size: number) => "ab".repeat(size / 2);

test("long header values cost a check no more than it may, and the failure mode answers", async (t) => {
  const { address } = await standalone(t, { policies: { "limits.yaml": POLICY } });
  const work = countRegexWork(t);
  const ask = async (point: string, x: string) => {
    work.visits = 0;
    const passed = await passes(address, point, { x });
    assert.ok(work.visits <= 3 * WORK_PER_CHECK, `${work.visits} for ${x.length} at ${point}`);
    return passed;
  };
  for (const size of SIZES) {
    const x = attack(size);
    assert.equal(await ask("open", x), true);
    assert.equal(await ask("closed", x), false);
    assert.equal(await ask("unset", x), true, "the limit counts it");
    assert.equal(await ask("smaller", x), size < 2_730, "tested, and does not match");
    assert.equal(await ask("usual", x), true, "tested, and does not match");
    await ask("many", x);
  }
  assert.equal(await ask("unset", attack(1_000)), false, "the limit is reached");
  // Values of 400 characters use up what a check may do in a part of the 21 expressions.
  await ask("many", attack(400));
  assert.equal(work.states, 0);
  const { match_too_costly = 0, undecided = 0 } = await counted(
    address,
    "sluice_anomalies_total",
    "kind",
  );
  assert.ok(match_too_costly > 0, `${match_too_costly}`);
  assert.equal(match_too_costly, undecided);
});

test("the reply names the failure mode, and flows with usual values are judged as always", async (t) => {
  const { address } = await standalone(t, { policies: { "limits.yaml": POLICY } });
  const request = { method: "GET", path: "/", headers: { x: attack(1_000) } };
  const check = { control_point: "closed", request };
  const { body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
  const [decision] = JSON.parse(body).check_response.limiter_decisions;
  assert.deepEqual([decision.dropped, decision.failure_mode], [true, "closed"]);

  const admitted = async (point: string, x: string) => {
    let count = 0;
    for (let at = 0; at < 2 * CAPACITY; at++) if (await passes(address, point, { x })) count++;
    return count;
  };
  for (const point of ["open", "closed", "unset", "smaller", "usual", "many"]) {
    assert.equal(await admitted(point, "Mozilla/5.0 (X11; Linux x86_64)"), 2 * CAPACITY, point);
  }
  assert.equal(await admitted("smaller", `a${"ba".repeat(10)}7`), CAPACITY);
  assert.equal(await admitted("usual", `/v1/${"x".repeat(8_000)}/orders`), CAPACITY);
});
