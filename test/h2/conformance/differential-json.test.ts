// Differential test of JSON over Sluice's HTTP/2 and over HTTP/1.1 on Node's server: the same requests to a running
// agent get the same replies.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ClientReply, http1, http2, type RequestOptions } from "../../kit/clients/http.ts";
import { standalone } from "../../kit/sluice/standalone.ts";

const POLICY = `circuit:
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop, label_matcher: { match_labels: { tier: limited } } }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 0 } }
            fill_amount: { constant_signal: { value: 0 } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.user }
`;

const CHECK = "/v1/flowcontrol/checkhttp";

/** Fields that belong to one HTTP version, or differ with time and call. */
const IGNORED_FIELDS: ReadonlySet<string> = new Set([
  ":status",
  "connection",
  "keep-alive",
  "date",
  "transfer-encoding",
  "x-sluice-decision-id",
]);
/** Parts of a body that differ with time and call, and what replaces them before the comparison. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME"],
  [/"[\d.]+s"/g, '"DURATION"'],
  // The whole response again in Protobuf, times included.
  [/"aperture.check_response":"[^"]*"/g, "RESPONSE"],
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID"],
];

function comparable({ status, headers, body }: ClientReply) {
  const normalized = REPLACED.reduce((text, [pattern, by]) => text.replace(pattern, by), body);
  const fields = Object.entries(headers)
    .filter(([name]) => !IGNORED_FIELDS.has(name))
    // Times vary in length.
    .filter(([name]) => name !== "content-length" || normalized === body)
    .sort();
  return { status, body: normalized, fields };
}

const text = fc.string({ maxLength: 20 });
const flow = fc.record(
  {
    control_point: fc.oneof(fc.constant("shop"), fc.constant("shop"), text, fc.constant(7)),
    controlPoint: fc.constant("shop"),
    source: fc.record({ address: fc.constant("10.0.0.1:80"), labels: fc.dictionary(text, text) }),
    destination: fc.record({ address: text }),
    labels: fc.dictionary(fc.constantFrom("tier", "user"), fc.constantFrom("limited", "free", "x")),
    request: fc.record(
      {
        method: fc.constantFrom("GET", "POST", ""),
        path: fc.oneof(fc.constant("/a?b=c"), text),
        host: text,
        headers: fc.dictionary(
          fc.constantFrom("user", "baggage", "X-Odd", "content-type"),
          fc.oneof(text, fc.constant("tier=limited")),
        ),
        body: fc.oneof(text, fc.json({ maxDepth: 2 })),
        size: fc.oneof(fc.integer(), fc.constant("12"), fc.constant(null)),
      },
      { requiredKeys: [] },
    ),
    ramp_mode: fc.oneof(fc.boolean(), fc.constant("yes")),
    unknown: fc.jsonValue({ maxDepth: 1 }),
  },
  { requiredKeys: [] },
);
const good = flow.map((value) => JSON.stringify(value));
const body = fc.oneof(
  { weight: 6, arbitrary: good },
  { weight: 2, arbitrary: fc.tuple(good, fc.double({ min: 0, max: 1 })).map(cut) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 50 }) },
  fc.constantFrom("", "null", "[]", "1", '"x"', "{", '{"a":1,"a":2}', '{"labels":[]}', "\ufeff{}"),
  fc.integer({ min: 0, max: 200 }).map((depth) => "[".repeat(depth) + "]".repeat(depth)),
);

function cut([whole, at]: readonly [string, number]): string {
  return whole.slice(0, Math.floor(whole.length * at));
}

const type = fc.option(
  fc.constantFrom(
    "application/json",
    "application/json",
    "application/json; charset=utf-8",
    "text/plain",
    "Application/JSON",
    "application/x-www-form-urlencoded",
    "application/jsonx",
    "",
    "json",
  ),
);
const asked: fc.Arbitrary<RequestOptions> = fc
  .record({
    method: fc.oneof(
      { weight: 8, arbitrary: fc.constant("POST") },
      fc.constantFrom("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"),
    ),
    path: fc.oneof(
      { weight: 8, arbitrary: fc.constant(CHECK) },
      fc.constantFrom(
        "/",
        "/v1/flowcontrol/check",
        "/v1/nothing",
        `${CHECK}?a=b`,
        `${CHECK}/`,
        "/%2e/x",
        "/healthz",
        "/readyz",
        "/version",
        "/metrics-not",
        "//",
        "/v1//flowcontrol",
        "/%zz",
      ),
    ),
    type,
    more: fc.dictionary(
      fc.constantFrom(
        "x-odd",
        "content-encoding",
        "accept",
        "grpc-timeout",
        "cookie",
        "user-agent",
      ),
      fc.oneof(fc.stringMatching(/^[!-~]{1,30}$/), fc.constantFrom("gzip", "5S", "1x", "0m")),
      { maxKeys: 2 },
    ),
    body,
  })
  .map(({ type, more, body, method, path }) => ({
    method,
    path,
    headers: { ...more, ...(type !== null && { "content-type": type }) },
    // Node's client sends no content with these.
    ...(["GET", "HEAD", "DELETE", "OPTIONS"].includes(method) ? {} : { body }),
  }));

test("the same requests get the same replies over HTTP/1.1 and HTTP/2", async (t) => {
  const { address } = await standalone(t, { policies: { "shop.yaml": POLICY } });
  const url = `http://${address}`;
  const [one, two] = [http1(t, url), http2(t, url)];
  const statuses = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(asked, async (request) => {
      const [wanted, own] = [await one(request), await two(request)];
      statuses.set(own.status, (statuses.get(own.status) ?? 0) + 1);
      assert.deepEqual(comparable(own), comparable(wanted));
    }),
    { numRuns: 600 },
  );
  for (const status of [200, 400, 404]) assert.ok(statuses.has(status), `${status} came`);
});

test("bodies up to the size limit and beyond get the same replies", async (t) => {
  const { address } = await standalone(t, { policies: { "shop.yaml": POLICY } });
  const url = `http://${address}`;
  const [one, two] = [http1(t, url), http2(t, url)];
  const MAX = 1024 * 1024;
  const frame = JSON.stringify({ control_point: "shop", request: { body: "" } }).length;
  for (const size of [0, 1_000, 16_384, 70_000, MAX - 1, MAX, MAX + 1, 2 * MAX]) {
    const value = {
      control_point: "shop",
      request: { body: "b".repeat(Math.max(0, size - frame)) },
    };
    const request = { method: "POST", path: CHECK, body: JSON.stringify(value) };
    const [wanted, own] = [await one(request), await two(request)];
    assert.deepEqual(comparable(own), comparable(wanted), `${size} bytes`);
    assert.equal(own.status, 200);
    // A longer body is a refused decision, because gateways let requests pass on any other answer.
    assert.equal(own.body.includes("REJECTED"), size > MAX, `${size} bytes`);
  }
});
