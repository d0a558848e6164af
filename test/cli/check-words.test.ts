// The words of `sluice check` for the fields of the policy language that let callers be refused for reasons other than a
// count: missing labels, failure modes, statuses of the policy; and of labels that classifiers make.

import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { runCommand as run } from "../kit/command.ts";
import { standalone } from "../kit/sluice/standalone.ts";

/** A limiter of one control point, and what its tests change. */
const limiter = (kind: string, point: string, parameters: string, more = "") => {
  const ports =
    kind === "rate_limiter"
      ? "bucket_capacity: { constant_signal: { value: 5 } }, fill_amount: { constant_signal: { value: 0 } }"
      : "max_concurrency: { constant_signal: { value: 5 } }";
  const needed = kind === "rate_limiter" ? "interval: 60s" : "max_inflight_duration: 60s";
  return `
    - flow_control:
        ${kind}:
          selectors: [{ control_point: ${point} }]
          in_ports: { ${ports} }
          parameters: { ${needed}, ${parameters} }
          ${more}`;
};

const KEYED = "limit_by_label_key: http.request.header.x_user";
const POLICY = `circuit:
  components:${[
    limiter(
      "rate_limiter",
      "refuses",
      `${KEYED}, on_missing_label: refuse`,
      "request_parameters: { denied_response_status_code: PaymentRequired }",
    ),
    limiter("rate_limiter", "defaults", `${KEYED}, on_missing_label: default_key`),
    limiter("concurrency_limiter", "slots", KEYED),
    limiter(
      "rate_limiter",
      "cost",
      KEYED,
      "request_parameters: { tokens_label_key: http.request.header.cost }",
    ),
  ].join("")}
    - variable: { constant_output: { special_value: NaN }, out_ports: { output: { signal_name: NOTHING } } }
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: invalid }]
          in_ports: { bucket_capacity: { signal_name: NOTHING }, fill_amount: { constant_signal: { value: 1 } } }
          parameters: { interval: 60s, on_failure: closed }
    - flow_control:
        sampler:
          in_ports: { accept_percentage: { constant_signal: { value: 0 } } }
          parameters: { selectors: [{ control_point: sampled }], label_key: session, on_missing_label: pass }
    - flow_control:
        quota_scheduler:
          selectors: [{ control_point: queue }]
          in_ports: { bucket_capacity: { constant_signal: { value: 1 } }, fill_amount: { constant_signal: { value: 0 } } }
          rate_limiter: { interval: 60s }
          scheduler:
            workloads: [{ name: batch, label_matcher: { match_labels: { http.method: GET } } }]
    - flow_control:
        load_scheduler:
          in_ports: { load_multiplier: { constant_signal: { value: 1 } } }
          parameters: { selectors: [{ control_point: load }] }
resources:
  flow_control:
    classifiers:
      - selectors: [{ control_point: labels }]
        rules:
          tier: { extractor: { from: request.http.headers.x-tier } }
          access_token: { extractor: { from: request.http.headers.x-token } }
          opaque: { extractor: { from: request.http.headers.x-opaque } }
          hidden: { extractor: { from: request.http.headers.x-tier }, telemetry: false }
`;

it("colours for a terminal only, and never against NO_COLOR", async (t) => {
  const { address } = await standalone(t, { policies: { "p.yaml": POLICY } });
  const coloured = async (point: string, env: Record<string, string>, out: boolean) => {
    const args = ["check", "--address", address, "--control-point", point];
    return (await run(args, { env, isTty: { out, err: out } })).out;
  };
  assert.ok((await coloured("refuses", {}, true)).startsWith("\u001b[31mrejected by "));
  assert.ok((await coloured("defaults", {}, true)).startsWith("\u001b[32maccepted\u001b"));
  for (const [env, out] of [
    [{}, false],
    [{ NO_COLOR: "1" }, true],
    [{ TERM: "dumb" }, true],
  ] as const)
    assert.ok(!(await coloured("refuses", env, out)).includes("\u001b"));
});

async function checks(t: TestContext) {
  const { address } = await standalone(t, { policies: { "p.yaml": POLICY } });
  return async (point: string, ...headers: readonly string[]) => {
    const flags = headers.flatMap((header) => ["--header", header]);
    const { out, err } = await run([
      "check",
      "--address",
      address,
      "--control-point",
      point,
      ...flags,
    ]);
    assert.equal(err, "");
    return out.trimEnd().split("\n");
  };
}

it("says why a flow is refused before any rule judges it", async (t) => {
  const { address } = await standalone(t, { policies: { "p.yaml": POLICY } });
  const { code, out } = await run(["check", "--address", address, "--path", "/a%00b"]);
  assert.equal(code, 1);
  assert.equal(
    out,
    "rejected: the path contains NUL, CR, LF or %00; the caller gets HTTP 400 Bad Request\n  no limiter was asked\n",
  );
});

it("says why a flow is refused, what the caller gets, and which labels are missing", async (t) => {
  const check = await checks(t);
  assert.deepEqual(await check("refuses"), [
    "rejected by rate limiter p/root.0: the key label is missing (RATE_LIMITED); the caller gets HTTP 402 Payment Required, which the policy sets",
    "  rate limiter p/root.0 refuses (key label missing)",
  ]);
  assert.deepEqual(await check("refuses", "x-user=ann"), [
    "accepted",
    "  rate limiter p/root.0 [http.request.header.x_user:ann] grants, 4 left of 5",
  ]);
  assert.deepEqual(await check("defaults"), [
    "accepted",
    "  rate limiter p/root.1 [default] grants (key label missing, judged under the default key), 4 left of 5",
  ]);
  assert.deepEqual(await check("cost", "x-user=ann"), [
    "accepted",
    "  rate limiter p/root.3 [http.request.header.x_user:ann] grants (tokens label missing, counts as 1), 4 left of 5",
  ]);
  assert.deepEqual(await check("sampled"), [
    "accepted",
    "  sampler p/root.6 [session:] grants (key label missing)",
  ]);
});

it("names the workload of a flow that a scheduler judged, and says that its time to wait is over", async (t) => {
  const check = await checks(t);
  const words = "quota scheduler p/root.7 [default]";
  assert.deepEqual(await check("queue"), [
    "accepted",
    `  ${words} grants, workload batch, 0 left of 1`,
  ]);
  assert.deepEqual(await check("queue"), [
    "rejected by quota scheduler p/root.7: too few tokens left, and no more time to wait (NO_TOKENS); the caller gets HTTP 503 Service Unavailable",
    `  ${words} refuses, workload batch, 0 left of 1`,
  ]);
  // Until its first decision, its failure mode answers.
  const [, load] = await check("load");
  assert.match(load ?? "", /^ {2}load scheduler p\/root\.8 grants( \(.*\))?, workload default$/);
});

it("counts what is left after the flow, for slots as for tokens", async (t) => {
  const check = await checks(t);
  const words = "concurrency limiter p/root.2 [http.request.header.x_user:ann] grants";
  assert.deepEqual(await check("slots", "x-user=ann"), ["accepted", `  ${words}, 4 left of 5`]);
  assert.deepEqual(await check("slots", "x-user=ann"), ["accepted", `  ${words}, 3 left of 5`]);
});

it("names the failure mode that refuses while a signal is invalid", async (t) => {
  const check = await checks(t);
  assert.deepEqual(await check("invalid"), [
    "rejected by rate limiter p/root.5: it cannot decide, and its on_failure is closed (RATE_LIMITED); the caller gets HTTP 429 Too Many Requests",
    "  rate limiter p/root.5 [default] refuses (on_failure: closed)",
  ]);
});

it("shows the labels that classifiers made, but nothing that looks like a secret", async (t) => {
  const check = await checks(t);
  const opaque = `${"c2Vj".repeat(10)}r3t0`;
  const lines = await check("labels", "x-tier=gold", "x-token=s3cret", `x-opaque=${opaque}`);
  assert.deepEqual(lines, [
    "accepted",
    "  classifier of p: no error",
    "  label access_token: ***",
    "  label hidden (its value is not for telemetry)",
    "  label opaque: ***",
    "  label tier: gold",
    "  no limiter applies to this request",
  ]);
});
