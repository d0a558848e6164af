// A port in a process of its own, so that a test can tell what an attack costs the server apart from what it
// costs the attacker. Started by watch.ts with its settings as JSON; answers questions about itself.

import { once } from "node:events";
import { argv, exit } from "node:process";
import { setTimeout as after } from "node:timers/promises";
import type { Code } from "#base/fault.ts";
import type { Call, Route, Service, Stream } from "#serve/handler.ts";
import { openPort } from "#serve/port.ts";
import type { Http2Fault, RefusedConnection, ServerMeter } from "#serve/settings.ts";
import { memoryLog, type Overrides, portSettings, realClock } from "./port.ts";

/** What was counted so far, each by its own names. */
export interface Counts {
  readonly faults: Readonly<Partial<Record<Http2Fault, number>>>;
  /** Connections that were refused before they could ask. */
  readonly refused: Readonly<Partial<Record<RefusedConnection, number>>>;
  /** Statuses of gRPC calls. */
  readonly codes: Readonly<Partial<Record<Code, number>>>;
  /** Statuses of HTTP requests. */
  readonly statuses: Readonly<Record<string, number>>;
}

/** What the process says of itself. Times in ms of CPU, memory in bytes. */
export interface Look extends Counts {
  readonly cpu: number;
  /** Most CPU time that the port's thread took, since the look before, while one call of `Wait` waited. */
  readonly waited: number;
  /** Heap and what lies outside of it; after a collection unless it was but a glance. */
  readonly held: number;
  /** Most resident memory since the look before. */
  readonly peak: number;
  /** Handlers that run, and the most that ever ran at once since the look before. */
  readonly running: number;
  readonly mostRunning: number;
  /** Timers and sockets that are open. */
  readonly open: readonly string[];
  /** Errors that were logged: an attack is never one. */
  readonly errors: readonly string[];
}

export interface VictimOptions {
  readonly settings?: Overrides;
  readonly maxConnections?: number;
}

const SAMPLE_MS = 5;
/** Samples that are kept: more than ten seconds. */
const SAMPLES = 2_048;
/** Bytes of a message of `Flow`. */
const PIECE = new Uint8Array(16 * 1024);

/** What replies are made of: what making them costs is not the port's. */
const ZEROS = new Uint8Array(1024 * 1024);

const faults: Partial<Record<Http2Fault, number>> = {};
const refused: Partial<Record<RefusedConnection, number>> = {};
const codes: Partial<Record<Code, number>> = {};
const statuses: Record<string, number> = {};
/** When, on the clock that all processes share, this thread had taken how much CPU time; a ring, in ms. */
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

const service: Service = {
  name: "test.Victim",
  healthNames: [],
  methods: {
    /** The message, at once. */
    Say: { kind: "unary", handle: (message) => message },
    /** The message, which says when it was sent: how much CPU time went by until it was heard is noted. */
    Wait: {
      kind: "unary",
      handle: (message) => {
        waited = Math.max(waited, threadCpu() - cpuAt(Buffer.from(message).readDoubleBE(0)));
        return message;
      },
    },
    /** The message after some work that a caller who leaves does not end. */
    Later: {
      kind: "unary",
      handle: (message) =>
        counted(async () => {
          const copy = Uint8Array.from(message);
          await after(200);
          return copy;
        }),
    },
    /** As many bytes as the message says in digits. */
    Give: { kind: "unary", handle: (message) => ZEROS.subarray(0, sizeOf(message)) },
    /** Messages without end, at the caller's pace. */
    Flow: {
      kind: "stream",
      client: false,
      server: true,
      handle: (stream, call) => counted(() => flow(stream, call)),
    },
    /** Number of the messages that came. */
    Gather: { kind: "stream", client: true, server: false, handle: gather },
    /** Reads nothing until the caller leaves. */
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

const { settings, maxConnections } = JSON.parse(argv[2] ?? "{}") as VictimOptions;
const log = memoryLog();
const port = await openPort({
  services: [service],
  routes,
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

/** CPU time that this thread had taken at that time, or somewhat before. */
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

function look(thoroughly: boolean): Look {
  const { user, system } = process.cpuUsage();
  sample();
  // Twice: buffers that the first one finds are only freed by the second.
  for (let time = 0; thoroughly && time < 2; time++) globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  const found: Look = {
    cpu: (user + system) / 1_000,
    held: heapUsed + external,
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
  if (thoroughly) {
    peak = 0;
    waited = 0;
    sample();
    mostRunning = running;
  }
  return found;
}

setInterval(sample, SAMPLE_MS);
process.on("message", (how) => process.send?.(look(how === "look")));
process.on("disconnect", () => exit(0));
process.send?.(port.address);
