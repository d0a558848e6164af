// The attack that blinds circuits: access-log records with invented statuses come over the network and become series
// of flux meters, from which the queries of circuits are answered.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openQueryBackend } from "#controller/query-backend.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { encode } from "#wire/protobuf/messages.ts";
import { fakeClock } from "../kit/clock.ts";
import { configOf } from "../kit/sluice/config.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { aFluxMeter } from "../telemetry/kit.ts";

const CHECK_RESPONSE = "aperture.flowcontrol.check.v1.CheckResponse";
const S = 1_000;

test("invented records neither use up the store of samples nor change what queries of real ones say", async (t) => {
  const clock = fakeClock(0, Date.UTC(2026, 0, 1));
  const meters = new FluxMeters();
  const records = new FinishedFlows(meters, () => [], new UnreportedFlows());
  const metrics = new Metrics({
    enable_go_metrics: false,
    enable_process_collector: false,
    pedantic: true,
  });
  metrics.add(meters);
  const names = Array.from({ length: 8 }, (_, at) => `m${at}`);
  meters.keep(names.map((name) => aFluxMeter({ name, policyName: "p" })));
  const log = memoryLog();
  const { config: settings } = configOf("controller");
  const backend = openQueryBackend({ settings, metrics, env: {}, clock, log });
  t.after(() => backend.close());
  metrics.add(backend.metrics);
  const mean = (name: string) => {
    const of = `{flux_meter_name="${name}",flow_status="OK",decision_type!="DECISION_TYPE_REJECTED"}`;
    return `sum(increase(flux_meter_sum${of}[30s])) / sum(increase(flux_meter_count${of}[30s]))`;
  };
  // The second one selects the series of all meters.
  backend.setQueries([...names.map(mean), "sum(rate(flux_meter_bucket[5m]))"]);
  const check = (name: string, decisionType: 0 | 1) =>
    Buffer.from(
      encode(CHECK_RESPONSE, { decisionType, fluxMeterInfos: [{ fluxMeterName: name }] }),
    ).toString("base64");
  const record = (
    name: string,
    ms: number,
    more: Readonly<Record<string, string>>,
    type: 0 | 1 = 0,
  ) =>
    records.consume(
      new Map(
        Object.entries({
          "aperture.source": "envoy",
          "aperture.check_response": check(name, type),
          RESPONSE_DURATION: String(ms),
          authz_duration: "0",
          ...more,
        }),
      ),
    );
  for (let second = 0; second < 40; second++) {
    for (const name of names) {
      record(name, 10 + names.indexOf(name), { "http.status_code": "200" });
      for (let at = 0; at < 600; at += 4) {
        const status = `forged-${second}-${at}`;
        record(
          name,
          5_000,
          { "http.status_code": String(100 + at), "aperture.flow.status": status },
          1,
        );
        record(name, 5_000, { "http.status_code": "500", "aperture.flow.status": status });
      }
    }
    clock.advance(S);
  }
  const { signal } = new AbortController();
  for (const [at, name] of names.entries()) {
    const result = await backend.engine.query(mean(name), clock.wall(), signal);
    assert.ok(result.kind === "vector");
    assert.equal(Math.round((result.samples[0]?.value ?? 0) * 1e6) / 1e6, 10 + at, name);
  }
  assert.equal(metrics.read("sluice_query_samples_lost_total"), 0);
  assert.ok((metrics.read("sluice_query_samples_series") ?? 0) <= 20_000);
  assert.deepEqual(log.lines, []);
});
