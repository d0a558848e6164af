import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Gunzip } from "#api/reports/gunzip.ts";
import { consumeAll, exportRecords, otlpRoutes } from "#api/reports/otlp.ts";
import { Fault } from "#base/fault.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { callOf } from "../../kit/api/agent.ts";
import { aFluxMeter } from "../../telemetry/kit.ts";

/** One record for each text, which is its attribute `name`. */
function message(names: readonly string[]): Buffer {
  const out = new ProtoWriter();
  const resource = out.open(0x0a, 4);
  const scope = out.open(0x12, 4);
  for (const name of names) {
    const record = out.open(0x12);
    const pair = out.open(0x32);
    out.text(0x0a, "name");
    const value = out.open(0x12);
    out.text(0x0a, name);
    out.close(value);
    out.close(pair);
    out.close(record);
  }
  out.close(scope, 4);
  out.close(resource, 4);
  return out.copy();
}

function accessLogEndpoint() {
  const taken: unknown[] = [];
  const handle = exportRecords("logs", {
    consume(record) {
      taken.push(record.get("name"));
      return record.get("name") !== "bad";
    },
  });
  return { taken, ask: async (bytes: Uint8Array) => Buffer.from(await handle(bytes, callOf())) };
}

test("records are consumed in order, and an empty reply means that all were usable", async () => {
  const { taken, ask } = accessLogEndpoint();
  assert.equal((await ask(message(["one", "two"]))).length, 0);
  assert.deepEqual(taken, ["one", "two"]);
  assert.equal((await ask(Buffer.alloc(0))).length, 0);
});

test("bad records do not affect others, and the reply counts them", async () => {
  const { taken, ask } = accessLogEndpoint();
  const reply = await ask(message(["bad", "good", "bad"]));
  assert.deepEqual(taken, ["bad", "good", "bad"]);
  // partial_success { rejected_log_records: 2, … }
  assert.deepEqual([reply[0], reply[2], reply[3]], [0x0a, 0x08, 2]);
  assert.match(reply.toString(), /could not be used/);
});

test("a malformed message is refused as a whole: none of its records is consumed", () => {
  const { taken, ask } = accessLogEndpoint();
  const bytes = message(["one", "two"]);
  return assert
    .rejects(ask(bytes.subarray(0, bytes.length - 1)), { code: "INVALID_ARGUMENT" })
    .then(() => assert.deepEqual(taken, []));
});

const CASES = "test/cases/otlp";
const CASE = /\.(logs|traces)\.(pb|json)(\.gz)?$/;

/** The two routes with real consumers, as requests of HTTP. */
function otlpServer() {
  const meters = new FluxMeters();
  meters.keep([aFluxMeter({ name: "latency" })]);
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  const ended: unknown[] = [];
  const end = (slots: readonly unknown[]) => {
    ended.push(...slots);
    return [];
  };
  const finished = new FinishedFlows(meters, end, new UnreportedFlows());
  metrics.add(meters);
  metrics.add(finished);
  const routes = otlpRoutes(consumeAll(finished));
  const post = async (
    signal: string,
    body: Uint8Array,
    headers: Readonly<Record<string, string>>,
  ) => {
    const route = routes.find(({ path }) => path === `/v1/${signal}`);
    assert.ok(route !== undefined);
    const query = new URLSearchParams();
    const request = { method: "POST", path: route.path, query, params: {}, headers, body };
    const reply = await route.handle(request, callOf());
    return { ...reply, text: Buffer.from(reply.body).toString() };
  };
  return { metrics, ended, finished, post, routes };
}

/** Senders of the cases with three flows, of which the second failed. */
const SENDERS = /^aperture-/;
/** Those whose flows nobody else ends, and whose workloads took 90 ms together. */
const ENDING = /^aperture-(go|java|lua)\./;

test("what exporters and SDKs send feeds flux meters and ends flows, in every encoding", async () => {
  const names = readdirSync(CASES).filter((name) => CASE.test(name));
  assert.equal(names.length, 13);
  for (const name of names) {
    const [, signal = "", encoding, gzip] = CASE.exec(name) ?? [];
    const { metrics, ended, post } = otlpServer();
    const type = encoding === "pb" ? "application/x-protobuf" : "application/json";
    const reply = await post(signal, readFileSync(`${CASES}/${name}`), {
      "content-type": type,
      ...(gzip === undefined ? {} : { "content-encoding": "gzip" }),
    });
    const { status, headers, text } = reply;
    assert.deepEqual(
      { status, headers, text },
      { status: 200, headers: { "content-type": type }, text: encoding === "pb" ? "" : "{}" },
      `${name} is taken without a rejected record`,
    );
    const flows = SENDERS.test(name) ? 3 : 1;
    assert.equal(metrics.read("flux_meter", { flux_meter_name: "latency" }), flows, name);
    const failed = metrics.read("flux_meter", { flow_status: "Error" });
    assert.equal(failed, flows === 3 ? 1 : undefined, name);
    assert.equal(ended.length, ENDING.test(name) ? 3 : 0, name);
    if (!ENDING.test(name)) continue;
    const sums = metrics.samples((metric) => metric === "flux_meter_sum");
    // Times in nanoseconds lose some tenths of a microsecond.
    const total = [...sums].reduce((sum, { value }) => sum + value, 0);
    assert.ok(Math.abs(total - 90) < 0.001, `${name}: ${total} ms`);
  }
});

test("an SDK's spans over gRPC", async () => {
  const { finished, metrics } = otlpServer();
  const bytes = readFileSync(`${CASES}/aperture-py-2.26.0.traces.pb`);
  const reply = await exportRecords("traces", finished)(bytes, callOf());
  assert.equal(reply.length, 0);
  assert.equal(metrics.read("sluice_access_log_records_total", { result: "taken" }), 3);
});

test("over HTTP, rejected records are a partial success in the encoding of the request", async () => {
  const { post } = otlpServer();
  const json = { resourceLogs: [{ scopeLogs: [{ logRecords: [{}, {}] }] }] };
  const reply = await post("logs", Buffer.from(JSON.stringify(json)), {
    "content-type": "application/json; charset=utf-8",
  });
  const { partialSuccess } = JSON.parse(reply.text);
  assert.equal(partialSuccess.rejectedLogRecords, "2");
  const binary = await post("logs", message(["x"]), { "content-type": "application/x-protobuf" });
  assert.match(binary.text, /could not be used/);
});

test("over HTTP, other types, encodings and sizes are refused with the right status", async () => {
  const { post, routes } = otlpServer();
  const protobuf = { "content-type": "application/x-protobuf" };
  const gzip = { ...protobuf, "content-encoding": "gzip" };
  const refused = async (
    body: Uint8Array,
    headers: Readonly<Record<string, string>>,
    http: number,
  ) =>
    assert.rejects(
      async () => post("traces", body, headers),
      (thrown) => thrown instanceof Fault && thrown.http === http,
    );
  await refused(Buffer.alloc(0), {}, 415);
  await refused(Buffer.alloc(0), { "content-type": "text/plain" }, 415);
  await refused(Buffer.alloc(0), { ...protobuf, "content-encoding": "br" }, 415);
  await refused(Buffer.from("no gzip"), gzip, 400);
  await refused(Buffer.from([0xff]), protobuf, 400);
  await refused(Buffer.from("{"), { "content-type": "application/json" }, 400);
  // A bomb of 4 KiB.
  await refused(gzipSync(Buffer.alloc(4 * 1024 * 1024 + 1)), gzip, 413);
  for (const { costly, maxBody, access } of routes)
    assert.deepEqual([costly, maxBody, access], [true, 4 * 1024 * 1024, "data"]);
});

test("few bodies are decompressed at a time, and few wait", async () => {
  const gunzip = new Gunzip(1_000);
  const body = gzipSync(Buffer.from("x"));
  const results = await Promise.allSettled(Array.from({ length: 110 }, () => gunzip.run(body)));
  const refused = results.filter(({ status }) => status === "rejected");
  assert.equal(refused.length, 8, "two run and a hundred wait");
  assert.equal(Buffer.from(await gunzip.run(body)).toString(), "x");
});
