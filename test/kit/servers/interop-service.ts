// `grpc.testing.TestService`, which gRPC's interoperability clients call, and the ORCA service that streams load
// reports, written as transport-independent handlers.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import protobuf from "protobufjs";
import { CODES, type Code, Fault } from "#base/fault.ts";
import type { Call, GrpcService, Stream } from "#base/handler.ts";

const { root } = protobuf.parse(`
syntax = "proto3";
message Payload { int32 type = 1; bytes body = 2; }
message EchoStatus { int32 code = 1; string message = 2; }
message TestReport {
  double cpu_utilization = 1;
  double memory_utilization = 2;
  map<string, double> request_cost = 3;
  map<string, double> utilization = 4;
}
message SimpleRequest {
  int32 response_type = 1;
  int32 response_size = 2;
  Payload payload = 3;
  EchoStatus response_status = 7;
  bool fill_server_id = 9;
  TestReport orca_per_query_report = 11;
}
message SimpleResponse { Payload payload = 1; string server_id = 4; }
message InputRequest { Payload payload = 1; }
message InputResponse { int32 aggregated_payload_size = 1; }
message Parameters { int32 size = 1; int32 interval_us = 2; }
message OutputRequest {
  int32 response_type = 1;
  repeated Parameters response_parameters = 2;
  Payload payload = 3;
  EchoStatus response_status = 7;
  TestReport orca_oob_report = 8;
}
message OutputResponse { Payload payload = 1; }
message LoadReport {
  double cpu_utilization = 1;
  double mem_utilization = 2;
  map<string, double> request_cost = 4;
  map<string, double> utilization = 5;
}
`);

interface Payload {
  readonly type?: number;
  readonly body?: Uint8Array;
}

interface EchoStatus {
  readonly code?: number;
  readonly message?: string;
}

interface TestReport {
  readonly cpuUtilization?: number;
  readonly memoryUtilization?: number;
  readonly requestCost?: Readonly<Record<string, number>>;
  readonly utilization?: Readonly<Record<string, number>>;
}

interface SimpleRequest {
  readonly responseType?: number;
  readonly responseSize?: number;
  readonly payload?: Payload;
  readonly responseStatus?: EchoStatus;
  readonly fillServerId?: boolean;
  readonly orcaPerQueryReport?: TestReport;
}

interface OutputRequest {
  readonly responseType?: number;
  readonly responseParameters?: readonly {
    readonly size?: number;
    readonly intervalUs?: number;
  }[];
  readonly payload?: Payload;
  readonly responseStatus?: EchoStatus;
  readonly orcaOobReport?: TestReport;
}

interface Codec<T> {
  encode(value: T): Uint8Array;
  decode(bytes: Uint8Array): T;
}

function codec<T extends object>(name: string): Codec<T> {
  const type = root.lookupType(name);
  return {
    encode: (value) => type.encode(type.fromObject(value)).finish(),
    decode: (bytes) => type.toObject(type.decode(bytes)) as T,
  };
}

/** Codecs of the messages that the tests send and receive. */
export const messages = {
  simpleRequest: codec<SimpleRequest>("SimpleRequest"),
  simpleResponse: codec<{ payload?: Payload; serverId?: string }>("SimpleResponse"),
  inputRequest: codec<{ payload?: Payload }>("InputRequest"),
  inputResponse: codec<{ aggregatedPayloadSize?: number }>("InputResponse"),
  outputRequest: codec<OutputRequest>("OutputRequest"),
  outputResponse: codec<{ payload?: Payload }>("OutputResponse"),
};
const loadReport = codec<object>("LoadReport");

const SERVER_ID = "sluice";
const NOTHING = new Uint8Array();
/** Request metadata that is echoed: the first in the initial, the second in the trailing metadata. */
const ECHO_INITIAL = "x-grpc-test-echo-initial";
const ECHO_TRAILING = "x-grpc-test-echo-trailing-bin";
/** Trailer with the load report of one call. */
const LOAD_TRAILER = "endpoint-load-metrics-bin";
/** Interval of load reports; changes are reported at once as well. */
const LOAD_EVERY_MS = 1_000;

/** The test service and the load report service, which share the reported load. */
export function interopServices(): readonly GrpcService[] {
  const load = new Load();
  return [
    {
      name: "grpc.testing.TestService",
      methods: {
        EmptyCall: { kind: "unary", handle: () => NOTHING },
        UnaryCall: { kind: "unary", handle: unaryCall },
        CacheableUnaryCall: { kind: "unary", handle: cacheableUnaryCall },
        StreamingOutputCall: { kind: "stream", client: false, server: true, handle: respond },
        StreamingInputCall: { kind: "stream", client: true, server: false, handle: inputCall },
        FullDuplexCall: {
          kind: "stream",
          client: true,
          server: true,
          handle: (stream, call) => fullDuplexCall(stream, call, load),
        },
        HalfDuplexCall: { kind: "stream", client: true, server: true, handle: halfDuplexCall },
      },
    },
    {
      name: "xds.service.orca.v3.OpenRcaService",
      methods: {
        StreamCoreMetrics: {
          kind: "stream",
          client: false,
          server: true,
          handle: (stream, call) => load.stream(stream, call),
        },
      },
    },
  ];
}

function unaryCall(message: Uint8Array, call: Call): Uint8Array {
  const request = messages.simpleRequest.decode(message);
  echo(call);
  const report = request.orcaPerQueryReport;
  if (report !== undefined) {
    call.trailer(LOAD_TRAILER, Buffer.from(encodeReport(report)).toString("base64"));
  }
  fail(request.responseStatus);
  return messages.simpleResponse.encode({
    payload: payloadOf(request.responseType, request.responseSize),
    ...(request.fillServerId === true && { serverId: SERVER_ID }),
  });
}

/** Returns a different reply each time, so that a cached reply would be noticed. */
function cacheableUnaryCall(): Uint8Array {
  const body = Buffer.from(process.hrtime.bigint().toString());
  return messages.simpleResponse.encode({ payload: { body } });
}

async function inputCall({ messages: requests, send }: Stream): Promise<void> {
  let size = 0;
  for await (const message of requests) {
    size += messages.inputRequest.decode(message).payload?.body?.length ?? 0;
  }
  await send(messages.inputResponse.encode({ aggregatedPayloadSize: size }));
}

async function fullDuplexCall(stream: Stream, call: Call, load: Load): Promise<void> {
  echo(call);
  for await (const message of stream.messages) {
    const request = messages.outputRequest.decode(message);
    fail(request.responseStatus);
    if (request.orcaOobReport !== undefined) load.set(request.orcaOobReport);
    await answer(request, stream, call);
  }
}

async function halfDuplexCall(stream: Stream, call: Call): Promise<void> {
  const requests: OutputRequest[] = [];
  for await (const message of stream.messages) {
    requests.push(messages.outputRequest.decode(message));
  }
  for (const request of requests) await answer(request, stream, call);
}

async function respond(stream: Stream, call: Call): Promise<void> {
  for await (const message of stream.messages) {
    await answer(messages.outputRequest.decode(message), stream, call);
  }
}

async function answer(request: OutputRequest, { send }: Stream, call: Call): Promise<void> {
  for (const { size, intervalUs = 0 } of request.responseParameters ?? []) {
    if (intervalUs > 0) await pause(intervalUs / 1_000, call);
    await send(messages.outputResponse.encode({ payload: payloadOf(request.responseType, size) }));
  }
}

async function pause(ms: number, call: Call): Promise<void> {
  try {
    await sleep(ms, undefined, { signal: call.signal() });
  } catch (cause) {
    throw new Fault("CANCELLED", "the caller cancelled", { cause });
  }
}

function echo(call: Call): void {
  const initial = call.header(ECHO_INITIAL);
  if (initial !== undefined) call.reply(ECHO_INITIAL, initial);
  const trailing = call.header(ECHO_TRAILING);
  if (trailing !== undefined) call.trailer(ECHO_TRAILING, trailing);
}

/** Throws a fault with the status that the request asks for. */
function fail(status: EchoStatus | undefined): void {
  const wanted = status?.code ?? 0;
  if (wanted === 0) return;
  for (const [code, { number }] of Object.entries(CODES)) {
    if (number === wanted) throw new Fault(code as Code, status?.message ?? "");
  }
  throw new Fault("INVALID_ARGUMENT", "no such status code");
}

function payloadOf(type = 0, size = 0): Payload {
  if (type !== 0) throw new Fault("INVALID_ARGUMENT", "payloads have type 0");
  if (size < 0) throw new Fault("INVALID_ARGUMENT", "sizes are not negative");
  return { type, body: new Uint8Array(size) };
}

function encodeReport({ memoryUtilization, ...same }: TestReport): Uint8Array {
  return loadReport.encode({ ...same, memUtilization: memoryUtilization });
}

/** The load report of the whole server. */
class Load {
  readonly #changes = new EventTarget();
  #report: Uint8Array = NOTHING;

  set(report: TestReport): void {
    this.#report = encodeReport(report);
    this.#changes.dispatchEvent(new Event("change"));
  }

  async stream({ messages: requests, send }: Stream, call: Call): Promise<void> {
    for await (const _ of requests);
    const cancelled = call.signal();
    while (!cancelled.aborted) {
      await send(this.#report);
      const signal = AbortSignal.any([cancelled, AbortSignal.timeout(LOAD_EVERY_MS)]);
      await once(this.#changes, "change", { signal }).catch(() => undefined);
    }
  }
}
