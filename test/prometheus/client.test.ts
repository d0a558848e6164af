// Instant queries to a server with scripted responses: what is sent, how responses are decoded, and which failures
// are transient.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Code, Fault } from "#base/fault.ts";
import { PrometheusClient, type PrometheusOptions } from "#prometheus/client.ts";
import { isTransient } from "#prometheus/response.ts";
import { fakeClock } from "../kit/clock.ts";
import { until } from "../kit/until.ts";
import {
  type Answering,
  caller,
  type FakeServer,
  fakeServer,
  type Heard,
  send,
  vectorOf,
} from "./kit.ts";

const AT = 1_700_000_000_000;

interface Over {
  readonly address?: (server: FakeServer) => string;
  readonly labels?: PrometheusOptions["settings"]["labels"];
  readonly onWarning?: PrometheusOptions["onWarning"];
}

async function server(t: TestContext, answer: Answering, over: Over = {}) {
  const fake = await fakeServer(t, answer);
  const client = new PrometheusClient({
    settings: { address: over.address?.(fake) ?? fake.url, labels: over.labels ?? [] },
    http: caller(t),
    ...(over.onWarning === undefined ? {} : { onWarning: over.onWarning }),
  });
  const query = (text = "up", at = AT) => client.query(text, at, new AbortController().signal);
  return { ...fake, heard: fake.heard, query };
}

function formOf(heard: Heard | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(new URLSearchParams(heard?.body));
}

const one: Answering = (_, reply) => send(reply, 200, vectorOf(1));

test("a query is a form posted to the API, with its time in seconds", async (t) => {
  const { heard, query } = await server(t, one);
  await query('a{b="c d&e=f"}', AT);
  await query("x", AT + 500);
  await query("x", AT + 1);
  const [first, second, third] = heard;
  assert.equal(first?.method, "POST");
  assert.equal(first?.url, "/api/v1/query");
  assert.equal(first?.headers["content-type"], "application/x-www-form-urlencoded");
  assert.deepEqual(formOf(first), { query: 'a{b="c d&e=f"}', time: "1700000000" });
  assert.equal(formOf(second)["time"], "1700000000.5");
  assert.equal(formOf(third)["time"], "1700000000.001");
});

test("addresses: host:port, with a path, with credentials", async (t) => {
  for (const [address, path] of [
    [(fake: FakeServer) => `127.0.0.1:${fake.port}`, "/api/v1/query"],
    [(fake: FakeServer) => `${fake.url}/`, "/api/v1/query"],
    [(fake: FakeServer) => `${fake.url}/prom/eu/?x=y`, "/prom/eu/api/v1/query"],
    [(fake: FakeServer) => `http://me:it@127.0.0.1:${fake.port}`, "/api/v1/query"],
  ] as const) {
    const { heard, query } = await server(t, one, { address });
    await query();
    assert.equal(heard[0]?.url, path);
  }
  for (const address of ["", "ftp://metrics", "http://"]) {
    const made = () => new PrometheusClient({ settings: { address, labels: [] }, http: caller(t) });
    assert.throws(made, /prometheus\.address: wanted host:port/, address);
  }
  const address = "ftp://me:s3cret@metrics/x?token=s3cret";
  assert.throws(
    () => new PrometheusClient({ settings: { address, labels: [] }, http: caller(t) }),
    {
      message: /, got "ftp:\/\/\*\*\*@metrics\/x"$/,
    },
  );
});

test("every kind of result, with NaN and infinities", async (t) => {
  let data: unknown;
  const { query } = await server(t, (_, reply) => send(reply, 200, { status: "success", data }));
  const read = (resultType: string, result: unknown) => {
    data = { resultType, result };
    return query();
  };
  assert.deepEqual(await read("scalar", [1, "2.5e-3"]), { kind: "scalar", value: 0.0025 });
  for (const [text, value] of [
    ["NaN", Number.NaN],
    ["+Inf", Infinity],
    ["-Inf", -Infinity],
    ["-0", -0],
  ] as const) {
    assert.deepEqual(await read("scalar", [1, text]), { kind: "scalar", value });
  }
  assert.deepEqual(await read("string", [1, "hi"]), { kind: "string", value: "hi" });
  assert.deepEqual(await read("matrix", [{}, {}]), { kind: "matrix", series: 2 });
  assert.deepEqual(await read("vector", []), { kind: "vector", samples: [] });
  const vector = await read("vector", [
    { metric: { __name__: "up", toString: "odd" }, value: [1, "1"] },
    { metric: {}, value: [1, "NaN"] },
  ]);
  assert.ok(vector.kind === "vector");
  assert.deepEqual(
    vector.samples.map(({ labels, value }) => [{ ...labels }, value]),
    [
      [{ __name__: "up", toString: "odd" }, 1],
      [{}, Number.NaN],
    ],
  );
  assert.equal(vector.samples[1]?.labels["toString"], undefined);
});

const FINAL = false;
const PASSING = true;

function refusal(errorType: string, error = "words"): unknown {
  return { status: "error", errorType, error };
}

for (const [name, status, body, code, may] of [
  ["timeout", 503, refusal("timeout"), "DEADLINE_EXCEEDED", PASSING],
  ["canceled", 503, refusal("canceled"), "UNAVAILABLE", PASSING],
  ["canceled in other words", 422, refusal("canceled"), "UNAVAILABLE", PASSING],
  ["server error", 500, refusal("internal"), "UNAVAILABLE", PASSING],
  ["bad gateway in HTML", 502, "<html>", "UNAVAILABLE", PASSING],
  ["too many requests", 429, "slow down", "UNAVAILABLE", PASSING],
  ["bad data", 400, refusal("bad_data"), "INVALID_ARGUMENT", FINAL],
  ["execution", 422, refusal("execution"), "INVALID_ARGUMENT", FINAL],
  ["not found", 404, "404 page not found", "INVALID_ARGUMENT", FINAL],
  ["unauthorized", 401, "who?", "PERMISSION_DENIED", FINAL],
  ["not JSON", 200, "<html>hello", "INTERNAL", FINAL],
  ["empty", 200, "", "INTERNAL", FINAL],
  ["no data", 200, { status: "success" }, "INTERNAL", FINAL],
  [
    "unknown kind",
    200,
    { status: "success", data: { resultType: "x", result: [] } },
    "INTERNAL",
    FINAL,
  ],
  [
    "a number",
    200,
    { status: "success", data: { resultType: "scalar", result: [1, 2] } },
    "INTERNAL",
    FINAL,
  ],
  [
    "a word",
    200,
    { status: "success", data: { resultType: "scalar", result: [1, "x"] } },
    "INTERNAL",
    FINAL,
  ],
  [
    "no value",
    200,
    { status: "success", data: { resultType: "scalar", result: [1, ""] } },
    "INTERNAL",
    FINAL,
  ],
  [
    "a histogram",
    200,
    {
      status: "success",
      data: { resultType: "vector", result: [{ metric: {}, histogram: [1, {}] }] },
    },
    "INTERNAL",
    FINAL,
  ],
  [
    "odd labels",
    200,
    {
      status: "success",
      data: { resultType: "vector", result: [{ metric: { a: 1 }, value: [1, "1"] }] },
    },
    "INTERNAL",
    FINAL,
  ],
  ["success with an error", 200, refusal("execution"), "INVALID_ARGUMENT", FINAL],
] as const satisfies readonly (readonly [string, number, unknown, Code, boolean])[]) {
  test(`an invalid response: ${name}`, async (t) => {
    const { query } = await server(t, (_, reply) => send(reply, status, body));
    await assert.rejects(query(), (thrown) => {
      assert.ok(thrown instanceof Fault, String(thrown));
      assert.deepEqual([thrown.code, isTransient(thrown)], [code, may], thrown.message);
      assert.match(thrown.message, /metrics server/);
      return true;
    });
  });
}

test("error messages of the server are included, up to a limit", async (t) => {
  const long = "x".repeat(5_000);
  const { query } = await server(t, (_, reply) => send(reply, 422, refusal("execution", long)));
  await assert.rejects(query(), (thrown) => {
    assert.ok(thrown instanceof Fault);
    assert.match(thrown.message, /^the metrics server answered 422 execution: x{300}$/);
    return true;
  });
});

test("transport failures and the local timeout are transient; an aborted call is not", async (t) => {
  const clock = fakeClock();
  const fake = await fakeServer(t, () => undefined);
  const http = caller(t, {}, { clock });
  const client = new PrometheusClient({ settings: { address: fake.url, labels: [] }, http });
  const failed = async (signal: AbortSignal, act: () => void): Promise<Fault> => {
    const seen = fake.heard.length;
    const asked = client.query("up", AT, signal).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    await until("it arrives", () => fake.heard.length > seen);
    act();
    const thrown = await asked;
    assert.ok(thrown instanceof Fault);
    return thrown;
  };
  const never = new AbortController();
  const late = await failed(never.signal, () => clock.advance(5_000));
  assert.deepEqual([late.code, isTransient(late)], ["DEADLINE_EXCEEDED", true]);
  const leave = new AbortController();
  const gone = await failed(leave.signal, () => leave.abort());
  assert.deepEqual([gone.code, isTransient(gone)], ["CANCELLED", false]);
  const dead = new PrometheusClient({ settings: { address: "127.0.0.1:1", labels: [] }, http });
  await assert.rejects(dead.query("up", AT, never.signal), (thrown) => {
    return (
      thrown instanceof Fault && isTransient(thrown) && /connection refused/.test(thrown.message)
    );
  });
});

test("a server that takes only GET is asked with GET from then on", async (t) => {
  const { heard, query } = await server(t, ({ method }, reply) =>
    method === "POST" ? send(reply, 405, "no") : send(reply, 200, vectorOf(3)),
  );
  for (let round = 0; round < 2; round++) {
    assert.deepEqual((await query("a b", AT)).kind, "vector");
  }
  assert.deepEqual(
    heard.map(({ method, url }) => `${method} ${url}`),
    ["POST /api/v1/query", ...Array(2).fill("GET /api/v1/query?query=a+b&time=1700000000")],
  );
});

test("POST stays in use if GET fails as well", async (t) => {
  let refuses = true;
  const { heard, query } = await server(t, ({ method }, reply) => {
    if (!refuses) send(reply, 200, vectorOf(3));
    else if (method === "POST") send(reply, 405, "no");
    else send(reply, 500, "trouble");
  });
  await assert.rejects(query(), { code: "UNAVAILABLE" });
  refuses = false;
  await query();
  assert.deepEqual(
    heard.map(({ method }) => method),
    ["POST", "GET", "POST"],
  );
});

test("labels restrict every query; one that cannot be parsed is never sent", async (t) => {
  const { heard, query } = await server(t, one, { labels: [{ name: "tenant", value: "a" }] });
  for (let round = 0; round < 2; round++) await query('sum(up{job="x"}) / b');
  for (const { body } of heard) {
    assert.match(new URLSearchParams(body).get("query") ?? "", /tenant="a".*tenant="a"/);
  }
  for (let round = 0; round < 2; round++) {
    await assert.rejects(query("sum(rate("), (thrown) => {
      assert.ok(thrown instanceof Fault);
      return !isTransient(thrown);
    });
  }
  assert.equal(heard.length, 2);
  const plain = await server(t, one);
  await plain.query("sum(rate(");
  assert.equal(formOf(plain.heard[0])["query"], "sum(rate(");
});

test("warnings of the server are reported once for each query", async (t) => {
  const told: string[] = [];
  const warned = { ...vectorOf(1), warnings: ["partial"], infos: ["no counter"] };
  const { query } = await server(t, (_, reply) => send(reply, 200, warned), {
    onWarning: (text, remark) => told.push(`${text}: ${remark}`),
  });
  await query("a");
  await query("a");
  await query("b");
  assert.deepEqual(told, ["a: partial", "a: no counter", "b: partial", "b: no counter"]);
});

test("2 000 warnings are remembered, and the oldest is dropped", async () => {
  const told: string[] = [];
  const body = Buffer.from(JSON.stringify({ ...vectorOf(1), warnings: ["partial"] }));
  const client = new PrometheusClient({
    settings: { address: "server", labels: [] },
    http: { call: async () => ({ status: 200, headers: {}, body }) },
    onWarning: (text) => told.push(text),
  });
  const query = (text: string) => client.query(text, AT, new AbortController().signal);
  for (let at = 0; at < 2_000; at++) await query(`q${at}`);
  await query("q0");
  assert.equal(told.length, 2_000);
  await query("one more");
  await query("q1");
  assert.equal(told.length, 2_001, "only the oldest");
  await query("q0");
  assert.deepEqual(told.slice(2_000), ["one more", "q0"]);
});
