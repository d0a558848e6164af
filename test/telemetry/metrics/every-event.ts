// The counters of this room, after an event of each kind.

import { AccessLogStreams } from "#telemetry/flows/access-log-streams.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FlowMetrics } from "#telemetry/flows/flow-metrics.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { CircuitMetrics } from "#telemetry/metrics/circuits.ts";
import { Metrics } from "#telemetry/metrics/metrics.ts";
import { PolicyMetrics } from "#telemetry/metrics/policies.ts";
import { ServerMetrics } from "#telemetry/metrics/server.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { aClassifier, aComponent, aDecision, aFlow, aFluxMeter, aVerdict } from "../kit.ts";

export const PLAIN = { enable_go_metrics: false, enable_process_collector: false, pedantic: true };
const BUCKETS = { latency_buckets_ms: [10, 25] };

/** The real counters of flows, circuits and the port, each of which was told of every kind of event once. */
export function everyEvent(): Metrics {
  const metrics = new Metrics(PLAIN);
  const flows = new FlowMetrics({ agent_group: "default" });
  const server = new ServerMetrics({ grpc: BUCKETS, http: BUCKETS });
  const policies = new PolicyMetrics();
  const meters = new FluxMeters();
  const unreported = new UnreportedFlows(1);
  const log = new FinishedFlows(meters, () => [{ returned: true, error: "" }], unreported);
  const circuits = new CircuitMetrics();
  server.certificate("tls.crt", () => ({ left: 60, lifetime: 300 }));
  const streams = new AccessLogStreams(fakeClock(), memoryLog());
  for (const source of [flows, server, policies, meters, log, circuits, unreported, streams])
    metrics.add(source);
  const decisions = (["rate_limiter", "concurrency_limiter", "sampler"] as const).map((kind) =>
    aDecision({ component: aComponent({ kind, componentId: kind }), dropped: true }),
  );
  flows.decided(
    aFlow(),
    aVerdict({ accepted: false, reason: 1, decisions, classifiers: [aClassifier()] }),
  );
  const scheduler = aComponent({ kind: "load_scheduler", componentId: "root.9" });
  const counts = { label: "w", value: undefined, remaining: 0, current: 0, consumed: 1 };
  const detail = { ...counts, workload: "w", priority: 1 };
  flows.decided(
    aFlow("queue"),
    aVerdict({ decisions: [aDecision({ component: scheduler, detail })] }),
  );
  for (const tokens of [-1, 0, 1]) {
    const jumps = { preempted: tokens, preemptedInWorkload: tokens };
    const queued = { workload: "w", tokens: 1, passed: tokens > 0, queued: false, waitedMs: 5 };
    flows.scheduled(scheduler, { ...queued, ...jumps });
  }
  flows.queued(scheduler);
  flows.settled(scheduler, "committed", 2);
  const found = { keys: 1, lowest: 20, highest: 20, lowestLatency: 5, highestLatency: 5 };
  flows.adapted(scheduler, { summary: () => found });
  flows.loaded(scheduler, { condition: "limiting", multiplier: 0.5, fillRate: 10, available: 3 });
  flows.completed({ policyName: "p", policyHash: "h", componentId: "root.9", workload: "w" }, 7);
  flows.ended("ingress", "settled");
  streams.opened();
  streams.refused("all");
  flows.lookedUp(true);
  flows.anomaly("late");
  flows.shed("queue", true, "delay");
  flows.missingLabel(aComponent(), "tokens");
  meters.keep([aFluxMeter()]);
  for (const number of [() => 7, () => undefined])
    meters.observe(["m"], { accepted: true, statusCode: "200", status: "OK", number });
  for (let at = 0; at < 3; at++) {
    log.consume(new Map(Object.entries({ "aperture.source": "envoy", "x-request-id": `${at}` })));
    const http = { header: () => String(at) } as never;
    unreported.decided({ ...aFlow(), expectEnd: false, http }, aVerdict({ fluxMeters: ["m"] }));
  }
  log.consume(new Map());
  const record = { "aperture.source": "envoy", "aperture.check_response": "WgMKAW0=" };
  log.consume(new Map(Object.entries({ ...record, RESPONSE_DURATION: -1 })));
  // limiter_decisions { concurrency_limiter_info { request_id: "a" } }
  const slot = Buffer.from([0x62, 6, 0xc2, 1, 3, 0x1a, 1, 0x61]).toString("base64");
  log.consume(new Map(Object.entries({ ...record, "aperture.check_response": slot })));
  // reservation_id: "a"
  const reserved = Buffer.from([0x82, 0x7d, 1, 0x61]).toString("base64");
  log.consume(new Map(Object.entries({ ...record, "aperture.check_response": reserved })));
  const readings = [1, Number.NaN, Number.POSITIVE_INFINITY];
  const signals = readings.map((_, at) => ({ circuit: "root", name: `s${at}` }));
  const circuit = circuits.policy("p", signals);
  circuit.ticked(0, (at) => readings[at] ?? 0);
  circuit.skipped(1);
  circuit.fault("root.0", "decider");
  circuit.decided("sampler");
  circuits.ended("p", "late");
  circuits.retried("p");
  circuits.attempted(3);
  circuits.committed("success");
  policies.setDocuments({ loaded: 2, refused: 1 });
  const method = { path: "/pkg.S/M", service: "pkg.S", method: "M", type: "unary" } as const;
  server.grpcStarted(method);
  server.grpcReceived(method);
  server.grpcSent(method);
  server.grpcHandled(method, "NOT_FOUND", 12);
  server.httpRequest("GET", 404, "", 3);
  return metrics;
}
