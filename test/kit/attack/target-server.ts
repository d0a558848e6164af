// A port in a process of its own, so that a test can measure what an attack costs the server without what it costs
// the attacker. Started by measure.ts with its settings as JSON; reports its counts, CPU time and memory on request.

import { once } from "node:events";
import { argv, exit } from "node:process";
import { setTimeout as after, setImmediate as turn } from "node:timers/promises";
import type { Code } from "#base/fault.ts";
import type { Call, GrpcService, Route, Stream } from "#base/handler.ts";
import type { Http2Fault, RefusedConnection, ServerMeter } from "#base/server-meter.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { NO_ACCESS_CONTROL } from "#serve/administration.ts";
import { openPort } from "#serve/port.ts";
import { memoryLog } from "../sluice/log.ts";
import { type Overrides, portSettings, realClock } from "../sluice/port.ts";
import { heldBytes } from "./memory.ts";

/** Events counted so far, by kind and name. */
export interface Counts {
  readonly faults: Readonly<Partial<Record<Http2Fault, number>>>;
  /** Connections that were refused before they could send a request. */
  readonly refused: Readonly<Partial<Record<RefusedConnection, number>>>;
  /** Status codes of gRPC calls. */
  readonly codes: Readonly<Partial<Record<Code, number>>>;
  /** Status codes of HTTP requests. */
  readonly statuses: Readonly<Record<string, number>>;
}

/** State of the process. Times are CPU milliseconds, memory is in bytes. */
export interface Snapshot extends Counts {
  readonly cpu: number;
  /**
   * Most CPU time that the port's thread spent while one call of `Wait` was waiting, since the previous full
   * snapshot.
   */
  readonly waited: number;
  /** Heap and external memory; in a full snapshot without garbage. */
  readonly held: number;
  /** Peak resident memory since the previous full snapshot. */
  readonly peak: number;
  /** Handlers at work now, and the most at once since the previous full snapshot. */
  readonly running: number;
  readonly mostRunning: number;
  /** Open timers and sockets. */
  readonly open: readonly string[];
  /** Errors logged so far; no attack may cause one. */
  readonly errors: readonly string[];
}

export interface TargetOptions {
  readonly settings?: Overrides;
  readonly maxConnections?: number;
}

const SAMPLE_MS = 5;
/** Turns of the event loop in which sockets that were closed, and promises that were settled, come to their end. */
const TURNS = 3;
/** Number of samples kept: more than ten seconds' worth. */
const SAMPLES = 2_048;
/** One message of `Flow`. */
const PIECE = new Uint8Array(16 * 1024);

/** Content of all replies, made once so that making it costs the port nothing. */
const ZEROS = new Uint8Array(1024 * 1024);

const faults: Partial<Record<Http2Fault, number>> = {};
const refused: Partial<Record<RefusedConnection, number>> = {};
const codes: Partial<Record<Code, number>> = {};
const statuses: Record<string, number> = {};
/** Ring buffer of samples: time on the clock that all processes share, and CPU time of this thread until then; ms. */
const sampledAt = new Float64Array(SAMPLES);
const sampledCpu = new Float64Array(SAMPLES);
let samples = 0;
let peak = 0;
let waited = 0;
let running = 0;
let mostRunning = 0;

function count<Name extends string>(counts: Partial<Record<Name, number>>, name: Name): void {
  const all: Partial<Record<string, number>> = counts;
  all[name] = (all[name] ?? 0) + 1;
}

const meter: ServerMeter = {
  grpcStarted() {},
  grpcHandled: (_method, code) => count(codes, code),
  grpcReceived() {},
  grpcSent() {},
  httpRequest: (_method, status) => count(statuses, String(status)),
  connectionRefused: (why) => count(refused, why),
  certificate: () => undefined,
  http2Fault: (fault) => count(faults, fault),
};

async function counted<Result>(work: () => Promise<Result>): Promise<Result> {
  running += 1;
  mostRunning = Math.max(mostRunning, running);
  try {
    return await work();
  } finally {
    running -= 1;
  }
}

const sizeOf = (message: Uint8Array) => Number(Buffer.from(message).toString("latin1"));

const service: GrpcService = {
  name: "test.Target",
  methods: {
    /** Returns the message at once. */
    Say: { kind: "unary", handle: (message) => message },
    /** Returns the message, which holds its sending time, and records the CPU time spent since then. */
    Wait: {
      kind: "unary",
      handle: (message) => {
        waited = Math.max(waited, threadCpu() - cpuAt(Buffer.from(message).readDoubleBE(0)));
        return message;
      },
    },
    /** Returns the message after 200 ms, even if the caller cancels meanwhile. */
    Later: {
      kind: "unary",
      handle: (message) =>
        counted(async () => {
          const copy = Uint8Array.from(message);
          await after(200);
          return copy;
        }),
    },
    /** Returns as many bytes as the message says in decimal digits. */
    Give: { kind: "unary", handle: (message) => ZEROS.subarray(0, sizeOf(message)) },
    /** Sends messages without end, as fast as the caller's windows allow. */
    Flow: {
      kind: "stream",
      client: false,
      server: true,
      handle: (stream, call) => counted(() => flow(stream, call)),
    },
    /** Returns the number of messages received. */
    Gather: { kind: "stream", client: true, server: false, handle: gather },
    /** Reads nothing until the caller cancels. */
    Ignore: {
      kind: "stream",
      client: true,
      server: true,
      handle: (_, call) => counted(() => ignore(call.signal())),
    },
  },
};

async function flow(stream: Stream, call: Call): Promise<void> {
  while (!call.signal().aborted) await stream.send(PIECE);
}

async function ignore(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

async function gather(stream: Stream): Promise<void> {
  let count = 0;
  for await (const _ of stream.messages) count += 1;
  await stream.send(Buffer.from(String(count)));
}

const plainText = { "content-type": "text/plain" };
const routes: readonly Route[] = [
  {
    method: "GET",
    path: "/hello",
    about: "Says hello",
    handle: () => ({ status: 200, headers: plainText, body: "hello" }),
  },
  {
    method: "GET",
    path: "/give/{size}",
    about: "Gives bytes",
    handle: ({ params }) => ({
      status: 200,
      headers: plainText,
      body: ZEROS.subarray(0, Number(params["size"])),
    }),
  },
  {
    method: "POST",
    path: "/take",
    about: "Takes a body",
    body: "json",
    handle: ({ body }) => ({ status: 200, headers: plainText, body: String(body.length) }),
  },
];

const { settings, maxConnections } = JSON.parse(argv[2] ?? "{}") as TargetOptions;
const log = memoryLog();
const port = await openPort({
  accessControl: NO_ACCESS_CONTROL,
  services: [service],
  routes,
  readScheduler: new ReadScheduler(realClock),
  clock: realClock,
  log,
  meter,
  settings: portSettings(settings),
  ...(maxConnections !== undefined && { maxConnections }),
});

function threadCpu(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** CPU time of this thread at that time, or at most one sample earlier. */
function cpuAt(when: number): number {
  const oldest = Math.max(0, samples - SAMPLES);
  let at = samples - 1;
  while (at > oldest && (sampledAt[at % SAMPLES] ?? 0) > when) at--;
  return sampledCpu[at % SAMPLES] ?? 0;
}

function sample(): void {
  peak = Math.max(peak, process.memoryUsage.rss());
  const at = samples++ % SAMPLES;
  sampledAt[at] = Number(process.hrtime.bigint()) / 1e6;
  sampledCpu[at] = threadCpu();
}

/** Memory that is held once what has ended in this turn of the event loop is over, and the collector has run. */
async function settledBytes(): Promise<number> {
  for (let scheduler = 0; scheduler < TURNS; scheduler++) await turn();
  return heldBytes();
}

/** A full snapshot collects garbage first and resets the peaks afterwards. */
async function snapshot(full: boolean): Promise<Snapshot> {
  const { user, system } = process.cpuUsage();
  sample();
  const { heapUsed, external } = process.memoryUsage();
  const found: Snapshot = {
    cpu: (user + system) / 1_000,
    held: full ? await settledBytes() : heapUsed + external,
    waited,
    peak,
    faults: { ...faults },
    refused: { ...refused },
    codes: { ...codes },
    statuses: { ...statuses },
    running,
    mostRunning,
    open: process.getActiveResourcesInfo(),
    errors: log.lines.flatMap(({ level, message, fields }) =>
      level === "error" ? [`${message} ${String(fields?.["error"])}`] : [],
    ),
  };
  if (full) {
    peak = 0;
    waited = 0;
    sample();
    mostRunning = running;
  }
  return found;
}

setInterval(sample, SAMPLE_MS);
process.on("message", (kind) => {
  void snapshot(kind === "full").then((found) => process.send?.(found));
});
process.on("disconnect", () => exit(0));
process.send?.(port.address);
