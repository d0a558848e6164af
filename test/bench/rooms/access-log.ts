// Measures how many records of finished flows an agent takes: entries of Envoy's gRPC access log, and log records of the same
// requests in OpenTelemetry's protocol. From the bytes of a message to the slot that returns, by processor time, in turns.
// `node test/bench/rooms/access-log.ts`

import { exportRecords } from "#api/reports/otlp.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { HttpLogEntry } from "#wire/access-log/entry.ts";
import { writeRecords } from "#wire/otlp/protobuf.ts";
import { agentOf, callOf, endpointsOf } from "../../kit/api/agent.ts";
import { CP, oneSlot, slots } from "../../kit/api/corpus.ts";
import { entryOf, httpMessage, readWhole } from "../../kit/messages/access-log.ts";

/** As many as fit into the 16 KiB that Envoy collects. */
const RECORDS = 12;
const ROUNDS = 21;
const TURN_MS = 300;

const HEADERS = {
  ":authority": "shop.example.com",
  accept: "text/html,application/xhtml+xml",
  "accept-encoding": "gzip, deflate, br",
  "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
  "x-forwarded-for": "10.0.0.1",
  "x-forwarded-proto": "https",
  "x-request-id": "7c1f0b6e-7d0c-9f5a-b1c3-2f0e8a6d4c55",
  "x-user": "user-1234",
};

/** The decision that Envoy has about a request which holds a slot. */
async function decisionOf(): Promise<string> {
  const { flowController } = agentOf([[slots, oneSlot]]);
  const http = { method: "GET", path: "/cart/items?page=2", scheme: "https", headers: HEADERS };
  const check = { attributes: { request: { http } } };
  const { dynamicMetadata } = await endpointsOf(flowController).proxy(check, callOf(CP));
  return String(dynamicMetadata?.["aperture.check_response"]);
}

const decision = await decisionOf();
const socket = (address: string, port: number) => ({
  address: {
    case: "socketAddress",
    value: { address, portSpecifier: { case: "portValue", value: port } },
  },
});
const entry = entryOf(decision, {
  downstreamRemoteAddress: socket("10.0.0.1", 41_234),
  downstreamLocalAddress: socket("10.0.0.2", 10_000),
  downstreamDirectRemoteAddress: socket("10.0.0.1", 41_234),
  upstreamRemoteAddress: socket("127.0.0.1", 9_000),
  upstreamLocalAddress: socket("127.0.0.1", 51_234),
  streamId: "7c1f0b6e-7d0c-9f5a-b1c3-2f0e8a6d4c55",
  customTags: {},
});
const record = new Map<string, string | number>(
  Object.entries({
    "aperture.source": "envoy",
    "aperture.check_response": decision,
    "http.status_code": "200",
    authz_duration: "2",
    BYTES_RECEIVED: "40",
    BYTES_SENT: "1000",
    DURATION: "33",
    REQUEST_DURATION: "1",
    REQUEST_TX_DURATION: "4",
    RESPONSE_DURATION: "30",
    RESPONSE_TX_DURATION: "2",
  }),
);

let returned = 0;
const end = (given: readonly unknown[]) => {
  returned += given.length;
  return [];
};
const flows = new FinishedFlows(new FluxMeters(), end, new UnreportedFlows());
const grpc = httpMessage(Array(RECORDS).fill(entry));
const otlp = writeRecords("logs", Array(RECORDS).fill(record));
const reused = new HttpLogEntry();
const exportLogs = exportRecords("logs", flows);
const call = callOf();

const contestants = {
  "gRPC access log": () => readWhole(grpc, flows, reused),
  "OTLP log records": () => void exportLogs(otlp, call),
} as const;

/** Processor time per record in µs. */
function turn(consume: () => void): number {
  const ends = performance.now() + TURN_MS;
  const before = process.cpuUsage();
  const counted = returned;
  while (performance.now() < ends) for (let each = 0; each < 100; each++) consume();
  const { user, system } = process.cpuUsage(before);
  if (returned === counted) throw new Error("no slot was returned");
  return (user + system) / (returned - counted);
}

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const costs = new Map<string, number[]>();
const ratios: number[] = [];
for (let round = -2; round < ROUNDS; round++) {
  const [mine, theirs] = Object.values(contestants).map(turn);
  if (round < 0 || mine === undefined || theirs === undefined) continue;
  for (const [at, name] of Object.keys(contestants).entries())
    costs.set(name, [...(costs.get(name) ?? []), at === 0 ? mine : theirs]);
  ratios.push(theirs / mine);
}
for (const [name, found] of costs) {
  const micros = median(found);
  const bytes = (name.startsWith("gRPC") ? grpc : otlp).length / RECORDS;
  process.stdout.write(
    `${name}: ${micros.toFixed(2)} µs a record of ${bytes.toFixed(0)} bytes, ${Math.round(1e3 / micros)} k a second\n`,
  );
}
process.stdout.write(`records a second, gRPC over OTLP: ${median(ratios).toFixed(2)}\n`);
