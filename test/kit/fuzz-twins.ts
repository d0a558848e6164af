// Two ports with the same services, one on each transport, and the same bytes sent to both: what their callers see must
// be the same, but for what is listed with its reason.

import { createHash } from "node:crypto";
import type { TestContext } from "node:test";
import { type Code, CODES as FAULTS, Fault } from "#base/fault.ts";
import type { Call, Method, Service, Stream } from "#serve/handler.ts";
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
} from "./h2.ts";
import { type TestPort, testPort } from "./port.ts";

export const TRANSPORTS = ["own", "grpc-js"] as const;
export type Transport = (typeof TRANSPORTS)[number];

export interface Twin extends TestPort {
  readonly transport: Transport;
  /** Calls of `Wait` that began, and those of them whose caller went away. */
  readonly waiting: { begun: number; left: number };
}

/** What a caller sees of one call, in a form that has no order. */
export interface Seen {
  readonly status: string | undefined;
  readonly code: string | undefined;
  /** Decoded: what needs no encoding may have it. */
  readonly details: string | undefined;
  /** Or, of a long one, its length and hash. */
  readonly body: string;
  readonly initial: readonly string[];
  readonly trailing: readonly string[];
  /** An error that the stream ended with instead of a reply. */
  readonly reset: number | undefined;
}

export async function twins(test: TestContext): Promise<readonly [own: Twin, library: Twin]> {
  const [own, library] = await Promise.all(TRANSPORTS.map((transport) => twin(test, transport)));
  if (own === undefined || library === undefined) throw new Error("two transports");
  return [own, library];
}

async function twin(test: TestContext, transport: Transport): Promise<Twin> {
  const waiting = { begun: 0, left: 0 };
  const port = await testPort(test, {
    services: [twinService(waiting)],
    settings: { grpc: { transport } },
  });
  return Object.assign(port, { transport, waiting });
}

/** Headers that a handler sees of a call, told in its reply. */
export const TOLD = ["x-text", "x-data-bin", "x-", "user-agent", "cookie"];

export function twinService(waiting: Twin["waiting"]): Service {
  const methods: Record<string, Method> = {
    Echo: {
      kind: "unary",
      handle: (message, call) => {
        call.reply("x-deadline", String(Number.isFinite(call.deadline)));
        call.trailer("x-last", "yes");
        return message;
      },
    },
    /** What the handler is told of the call's headers. */
    Tell: {
      kind: "unary",
      handle: (_, call) =>
        Buffer.from(JSON.stringify(TOLD.map((name) => [name, call.header(name) ?? null]))),
    },
    Size: { kind: "unary", handle: (message) => Buffer.from(String(message.length)) },
    Give: { kind: "unary", handle: (message) => new Uint8Array(Number(text(message))) },
    /** Fails with the code and the text that it is sent. */
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
        throw new TypeError("a defect that nobody is told of");
      },
    },
    /** Answers a little later. */
    Slow: {
      kind: "unary",
      handle: async (message) => {
        const copy = Uint8Array.from(message);
        await new Promise((resolve) => setTimeout(resolve, 5));
        return copy;
      },
    },
    /** Waits until its caller goes away or its time is up. */
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
        waiting.left++;
        throw new Fault("ABORTED", "nobody waits for this");
      },
    },
    Gather: stream(true, false, gather),
    Flow: stream(false, true, flow),
    Chat: stream(true, true, chat),
  };
  return { name: "test.Twin", healthNames: [], methods };
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

/** Windows so wide that no reply waits for its caller. */
export const WIDE = Buffer.concat([settings([4, 2 ** 30], [3, 1_000]), windowUpdate(0, 2 ** 30)]);

/** Told apart from the rest, or not of the call: when it was answered. */
const ASIDE: ReadonlySet<string> = new Set([":status", "date", "grpc-status", "grpc-message"]);

/**
 * What the library says in every reply and the own transport does not, since nothing follows from it: the subtype of
 * the content, which compressions it could read (that is said when it matters: with a refusal), that it uses none.
 */
const SAID_ALWAYS: ReadonlySet<string> = new Set([
  "content-type: application/grpc+proto",
  "content-type: application/grpc",
  "grpc-accept-encoding: identity,deflate,gzip",
  "grpc-encoding: identity",
]);

function told(bytes: Buffer): string {
  if (bytes.length < 200) return bytes.toString("latin1");
  return `${bytes.length} bytes, ${createHash("sha1").update(bytes).digest("hex")}`;
}

function plainText(encoded: string): string {
  return decodeURIComponent(encoded);
}

/** What these frames on a stream amount to. */
export function seen(frames: readonly Frame[], stream: number): Seen {
  const own = frames.filter((frame) => frame.stream === stream);
  const blocks = own.flatMap(({ fields }) => (fields === undefined ? [] : [fields]));
  const [head = [], trailers] = blocks;
  const last = new Map(trailers ?? head);
  const plain = (fields: typeof head) =>
    fields
      .filter(([name]) => !ASIDE.has(name))
      .map(([name, value]) => `${name}: ${value}`)
      .filter((field) => !SAID_ALWAYS.has(field))
      .sort();
  const ended = own.some(
    ({ type, flags }) => (type === DATA || type === HEADERS) && (flags & 1) !== 0,
  );
  const broken = own.find(({ type }) => type === RST_STREAM)?.payload.readUInt32BE();
  const code = last.get("grpc-status");
  return {
    status: new Map(head).get(":status"),
    code,
    // The library says that all is well with "OK", too.
    details: code === "0" ? undefined : plainText(last.get("grpc-message") ?? ""),
    body: told(Buffer.concat(own.flatMap(({ type, payload }) => (type === DATA ? [payload] : [])))),
    initial: plain(head),
    trailing: plain(trailers ?? []),
    reset: ended ? undefined : broken,
  };
}

/** A connection that one call after the other is made on, each told as it ended. */
export class Caller {
  readonly #peer: RawPeer;
  readonly #transport: Transport;

  private constructor(peer: RawPeer, transport: Transport) {
    this.#peer = peer;
    this.#transport = transport;
  }

  static async of(test: TestContext, { address, transport }: Twin): Promise<Caller> {
    const peer = await rawPeer(test, address, { greeting: WIDE });
    await peer.pong();
    return new Caller(peer, transport);
  }

  /** Makes the bytes of a call, and sends them in these parts, a turn or more between them. */
  async call(make: (stream: number) => readonly Uint8Array[]): Promise<Seen> {
    const peer = this.#peer;
    const stream = peer.next();
    for (const part of make(stream)) await peer.send(part);
    await peer.outcome(stream);
    const outcome = seen(peer.frames, stream);
    if (peer.ended) throw new Error(`${this.#transport} ended the connection: ${peer.told()}`);
    // What has been told is not looked at again.
    peer.frames.length = 0;
    return outcome;
  }

  /** Sends so many parts of a call, takes it back, and waits until the server has read that. */
  async takeBack(
    make: (stream: number) => readonly Uint8Array[],
    parts: number,
    slowly: boolean,
  ): Promise<void> {
    const peer = this.#peer;
    const stream = peer.next();
    const [head = Buffer.alloc(0), ...rest] = make(stream);
    await peer.send(head);
    for (const part of rest.slice(0, parts)) await peer.send(part);
    if (slowly) await peer.pong();
    await peer.send(reset(stream));
    await peer.pong();
    peer.frames.length = 0;
  }

  close(): void {
    this.#peer.socket.destroy();
  }
}

/** Sends bytes, in these parts, on a connection of its own, and tells what became of stream 1. */
export async function ask(
  test: TestContext,
  { address }: Twin,
  parts: readonly Uint8Array[],
): Promise<Seen> {
  const peer = await rawPeer(test, address, { greeting: null });
  for (const part of parts) {
    await peer.send(part);
    // Otherwise the system would hand both over at once.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await peer.outcome(1);
  peer.socket.destroy();
  return seen(peer.frames, 1);
}
