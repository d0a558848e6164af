// Two ports with the same services, one on each transport, and callers that send the same bytes to both, for
// differential tests.

import { createHash } from "node:crypto";
import type { TestContext } from "node:test";
import { type Code, CODES as FAULTS, Fault } from "#base/fault.ts";
import type { Call, GrpcService, Method, Stream } from "#base/handler.ts";
import {
  DATA,
  type Frame,
  HEADERS,
  type RawPeer,
  RST_STREAM,
  rawPeer,
  reset,
  settings,
  windowUpdate,
} from "../../kit/clients/h2.ts";
import { type TestPort, testPort } from "../../kit/sluice/port.ts";

export const TRANSPORTS = ["own", "grpc-js"] as const;
export type Transport = (typeof TRANSPORTS)[number];

export interface PairedPort extends TestPort {
  readonly transport: Transport;
  /** Number of calls of `Wait` that began, and that were aborted. */
  readonly waiting: { begun: number; aborted: number };
}

/** The outcome of one call as its caller sees it, with metadata sorted. */
export interface ObservedReply {
  readonly status: string | undefined;
  readonly code: string | undefined;
  /** Percent-decoded, as a transport may encode more than it must. */
  readonly details: string | undefined;
  /** The body; its length and hash where it is long. */
  readonly body: string;
  readonly initial: readonly string[];
  readonly trailing: readonly string[];
  /** Error code of an RST_STREAM before the end of the reply. */
  readonly reset: number | undefined;
}

export async function pairedPorts(
  test: TestContext,
): Promise<readonly [own: PairedPort, library: PairedPort]> {
  const [own, library] = await Promise.all(
    TRANSPORTS.map((transport) => pairedPort(test, transport)),
  );
  if (own === undefined || library === undefined) throw new Error("two transports");
  return [own, library];
}

async function pairedPort(test: TestContext, transport: Transport): Promise<PairedPort> {
  const waiting = { begun: 0, aborted: 0 };
  const port = await testPort(test, {
    services: [pairedService(waiting)],
    settings: { grpc: { transport } },
  });
  return Object.assign(port, { transport, waiting });
}

/** Request headers that the method `Tell` reports in its reply. */
export const REPORTED_HEADERS = ["x-text", "x-data-bin", "x-", "user-agent", "cookie"];

export function pairedService(waiting: PairedPort["waiting"]): GrpcService {
  const methods: Record<string, Method> = {
    Echo: {
      kind: "unary",
      handle: (message, call) => {
        call.reply("x-deadline", String(Number.isFinite(call.deadline)));
        call.trailer("x-last", "yes");
        return message;
      },
    },
    /** Returns the request headers as the handler sees them. */
    Tell: {
      kind: "unary",
      handle: (_, call) =>
        Buffer.from(
          JSON.stringify(REPORTED_HEADERS.map((name) => [name, call.header(name) ?? null])),
        ),
    },
    Size: { kind: "unary", handle: (message) => Buffer.from(String(message.length)) },
    Give: { kind: "unary", handle: (message) => new Uint8Array(Number(text(message))) },
    /** Fails with the code and text in the message. */
    Fail: {
      kind: "unary",
      handle: (message, call) => {
        const [code = "", ...words] = text(message).split(" ");
        call.reply("x-reply", "head");
        call.trailer("x-data-bin", "AAEC");
        throw new Fault(code in FAULTS ? (code as Code) : "UNKNOWN", words.join(" "));
      },
    },
    Break: {
      kind: "unary",
      handle: () => {
        throw new TypeError("a defect that must not reach the caller");
      },
    },
    /** Echoes after 5 ms. */
    Slow: {
      kind: "unary",
      handle: async (message) => {
        const copy = Uint8Array.from(message);
        await new Promise((resolve) => setTimeout(resolve, 5));
        return copy;
      },
    },
    /** Waits until the caller cancels or the deadline passes. */
    Wait: {
      kind: "unary",
      handle: async (_, call) => {
        waiting.begun++;
        const signal = call.signal();
        if (!signal.aborted) {
          await new Promise((resolve) => {
            signal.addEventListener("abort", resolve, { once: true });
          });
        }
        waiting.aborted++;
        throw new Fault("ABORTED", "no caller receives this");
      },
    },
    Gather: stream(true, false, gather),
    Flow: stream(false, true, flow),
    Chat: stream(true, true, chat),
  };
  return { name: "test.Pair", methods };
}

function stream(
  client: boolean,
  server: boolean,
  handle: (stream: Stream, call: Call) => Promise<void>,
): Method {
  return { kind: "stream", client, server, handle };
}

async function gather(stream: Stream): Promise<void> {
  const sizes: number[] = [];
  for await (const message of stream.messages) sizes.push(message.length);
  await stream.send(Buffer.from(sizes.join(",")));
}

async function flow(stream: Stream, call: Call): Promise<void> {
  call.reply("x-flows", "yes");
  for await (const message of stream.messages) {
    for (let at = 0; at < 3; at++) await stream.send(message);
  }
  call.trailer("x-last", "yes");
}

async function chat(stream: Stream): Promise<void> {
  for await (const message of stream.messages) await stream.send(message);
}

function text(message: Uint8Array): string {
  return Buffer.from(message).toString("latin1");
}

/** Windows so large that no reply ever waits. */
export const LARGE_WINDOWS = Buffer.concat([
  settings([4, 2 ** 30], [3, 1_000]),
  windowUpdate(0, 2 ** 30),
]);

/** Fields that are compared separately, and the date. */
const IGNORED_FIELDS: ReadonlySet<string> = new Set([
  ":status",
  "date",
  "grpc-status",
  "grpc-message",
]);

/**
 * Fields that only the library sends in every reply, without consequence: the content subtype, the compressions it
 * accepts (Sluice sends these with a refusal, where they matter), and that it uses none.
 */
const LIBRARY_ONLY_FIELDS: ReadonlySet<string> = new Set([
  "content-type: application/grpc+proto",
  "content-type: application/grpc",
  "grpc-accept-encoding: identity,deflate,gzip",
  "grpc-encoding: identity",
]);

function digest(bytes: Buffer): string {
  if (bytes.length < 200) return bytes.toString("latin1");
  return `${bytes.length} bytes, ${createHash("sha1").update(bytes).digest("hex")}`;
}

/** Summarises the frames of a stream. */
export function observedReply(frames: readonly Frame[], stream: number): ObservedReply {
  const own = frames.filter((frame) => frame.stream === stream);
  const blocks = own.flatMap(({ fields }) => (fields === undefined ? [] : [fields]));
  const [head = [], trailers] = blocks;
  const last = new Map(trailers ?? head);
  const plain = (fields: typeof head) =>
    fields
      .filter(([name]) => !IGNORED_FIELDS.has(name))
      .map(([name, value]) => `${name}: ${value}`)
      .filter((field) => !LIBRARY_ONLY_FIELDS.has(field))
      .sort();
  const ended = own.some(
    ({ type, flags }) => (type === DATA || type === HEADERS) && (flags & 1) !== 0,
  );
  const broken = own.find(({ type }) => type === RST_STREAM)?.payload.readUInt32BE();
  const code = last.get("grpc-status");
  return {
    status: new Map(head).get(":status"),
    code,
    // The library sends the text "OK" with status 0.
    details: code === "0" ? undefined : decodeURIComponent(last.get("grpc-message") ?? ""),
    body: digest(
      Buffer.concat(own.flatMap(({ type, payload }) => (type === DATA ? [payload] : []))),
    ),
    initial: plain(head),
    trailing: plain(trailers ?? []),
    reset: ended ? undefined : broken,
  };
}

/** A connection on which one call is made after another. */
export class Caller {
  readonly #peer: RawPeer;
  readonly #transport: Transport;

  private constructor(peer: RawPeer, transport: Transport) {
    this.#peer = peer;
    this.#transport = transport;
  }

  static async of(test: TestContext, { address, transport }: PairedPort): Promise<Caller> {
    const peer = await rawPeer(test, address, { initialFrames: LARGE_WINDOWS });
    await peer.pingRoundTrip();
    return new Caller(peer, transport);
  }

  /** Sends the parts of a call, at least one turn of the event loop apart, and returns its reply. */
  async call(make: (stream: number) => readonly Uint8Array[]): Promise<ObservedReply> {
    const peer = this.#peer;
    const stream = peer.nextStream();
    for (const part of make(stream)) await peer.send(part);
    await peer.outcome(stream);
    const outcome = observedReply(peer.frames, stream);
    if (peer.ended)
      throw new Error(`${this.#transport} ended the connection: ${peer.describeFrames()}`);
    // Later calls need not look at these frames again.
    peer.frames.length = 0;
    return outcome;
  }

  /** Sends the head and this many parts of a call, cancels it, and waits until the server has read the reset. */
  async cancel(
    make: (stream: number) => readonly Uint8Array[],
    parts: number,
    slowly: boolean,
  ): Promise<void> {
    const peer = this.#peer;
    const stream = peer.nextStream();
    const [head = Buffer.alloc(0), ...rest] = make(stream);
    await peer.send(head);
    for (const part of rest.slice(0, parts)) await peer.send(part);
    if (slowly) await peer.pingRoundTrip();
    await peer.send(reset(stream));
    await peer.pingRoundTrip();
    peer.frames.length = 0;
  }

  close(): void {
    this.#peer.socket.destroy();
  }
}

/** Sends bytes in these segments on a connection of their own and returns the reply on stream 1. */
export async function callInSegments(
  test: TestContext,
  { address }: PairedPort,
  parts: readonly Uint8Array[],
): Promise<ObservedReply> {
  const peer = await rawPeer(test, address, { initialFrames: null });
  for (const part of parts) {
    await peer.send(part);
    // Otherwise the kernel would deliver both at once.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await peer.outcome(1);
  peer.socket.destroy();
  return observedReply(peer.frames, 1);
}
