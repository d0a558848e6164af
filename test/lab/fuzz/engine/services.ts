// The gRPC service and JSON routes behind a fuzzed transport: a method of every kind, with bounds on what a request
// can ask for.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Call, GrpcService, Route, Stream } from "#base/handler.ts";

/** Numbers of a message in the form `size` or `size count`. */
const numbers = (message: Uint8Array) =>
  Buffer.from(message).toString("latin1").split(" ").map(Number);
const bounded = (value = 0, most: number) => (value >= 0 && value <= most ? Math.floor(value) : 0);

/** The service; `running` is called with 1 and -1 as an asynchronous handler begins and ends. */
export function fuzzService(clock: Clock, running: (by: 1 | -1) => void): GrpcService {
  const counted = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    running(1);
    try {
      return await work();
    } finally {
      running(-1);
    }
  };
  const stream = (
    client: boolean,
    server: boolean,
    handle: (stream: Stream, call: Call) => Promise<void>,
  ) =>
    ({
      kind: "stream",
      client,
      server,
      handle: (messages: Stream, call: Call) => counted(() => handle(messages, call)),
    }) as const;
  const later = (ms: number) =>
    new Promise<void>((resolve) => {
      clock.alarm(ms, resolve);
    });
  return {
    name: "fuzz.Service",
    methods: {
      Echo: { kind: "unary", handle: echo },
      Later: {
        kind: "unary",
        handle: (message, call) => {
          const copy = Uint8Array.from(message);
          call.reply("x-late", "yes");
          return counted(async () => {
            await later(100);
            return copy;
          });
        },
      },
      Fail: {
        kind: "unary",
        handle: () => {
          throw new Fault("INVALID_ARGUMENT", "what was wanted: something else, 100 %");
        },
      },
      Give: {
        kind: "unary",
        handle: (message) => new Uint8Array(bounded(numbers(message)[0], 400_000)),
      },
      Flow: stream(false, true, flow),
      Gather: stream(true, false, gather),
      Chat: stream(true, true, chat),
      Wait: stream(true, true, wait),
    },
  };
}

function echo(message: Uint8Array, call: Call): Uint8Array {
  const text = call.header("x-text");
  if (text !== undefined) call.reply("x-text", text.replace(/[^ -~]/g, "?"));
  const binary = call.header("x-data-bin");
  if (binary !== undefined) call.trailer("x-data-bin", binary);
  return message;
}

async function flow(stream: Stream): Promise<void> {
  for await (const message of stream.messages) {
    const [size, count] = numbers(message);
    const piece = new Uint8Array(bounded(size, 50_000));
    for (let at = 0; at < bounded(count, 100); at++) await stream.send(piece);
  }
}

async function gather(stream: Stream): Promise<void> {
  let bytes = 0;
  for await (const message of stream.messages) bytes += message.length;
  await stream.send(Buffer.from(String(bytes)));
}

async function chat(stream: Stream): Promise<void> {
  for await (const message of stream.messages) await stream.send(message);
}

/** Reads nothing until the caller cancels or its deadline passes. */
async function wait(_: Stream, call: Call): Promise<void> {
  const signal = call.signal();
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

const TEXT = { "content-type": "text/plain" };
export const ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/hello",
    about: "Says hello",
    handle: ({ query }) => ({ status: 200, headers: TEXT, body: `hello ${query.size}` }),
  },
  {
    method: "GET",
    path: "/give/{size}",
    about: "Gives bytes",
    handle: ({ params }) => ({
      status: 200,
      headers: TEXT,
      body: new Uint8Array(bounded(Number(params["size"]), 400_000)),
    }),
  },
  {
    method: "POST",
    path: "/take",
    about: "Takes a body",
    body: "json",
    handle: ({ body }) => ({ status: 200, headers: TEXT, body: String(body.length) }),
  },
];
