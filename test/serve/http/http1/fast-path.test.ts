// HTTP/1.1 connections on the fast path, until a request needs Node's server: no client sees a difference.

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import type { Call, HttpReply, Route } from "#base/handler.ts";
import { arrived, offered, serverEnd } from "../../../kit/attack/server-end.ts";
import { fakeClock } from "../../../kit/clock.ts";
import {
  dial,
  memoryMeter,
  type Overrides,
  readAll,
  realClock,
  testPort,
} from "../../../kit/sluice/port.ts";
import { until } from "../../../kit/until.ts";

const LARGE = 8_000_000;
/** Most bytes that may be read from a connection whose reply is awaited: the limit, and what one read may bring. */
const MAX_READ = 1_000_000;
/** A field that sends a request to Node's server and changes nothing else. */
const NOT_PLAIN = "te: trailers\r\n";

const KEPT = "\r\nConnection: keep-alive\r\nKeep-Alive: timeout=30\r\n";

const json = (body: string | Uint8Array): HttpReply => ({
  status: 200,
  headers: { "content-type": "application/json" },
  body,
});

/** Collects what handlers report about their calls. */
class CallRecord {
  readonly ways: ("plain" | "other")[] = [];
  readonly aborted: string[] = [];
  go: (() => void) | undefined;

  see(call: Call): void {
    this.ways.push(call.copiesReply === true ? "plain" : "other");
  }
}

function routes(calls: CallRecord): readonly Route[] {
  const post = (path: string, handle: Route["handle"]): Route => ({
    method: "POST",
    path,
    about: "",
    body: "json",
    maxBody: 1_000,
    handle(request, call) {
      calls.see(call);
      return handle(request, call);
    },
  });
  return [
    post("/echo", ({ body, query }, call) => {
      call.reply("x-peer", call.peer);
      return json(JSON.stringify([String(Buffer.from(body)), query.get("q"), call.header("x-a")]));
    }),
    post("/bytes", () => json(Buffer.from("\xe4\u20ac"))),
    post("/text", () => json("\xe4\u20ac")),
    post("/busy", () => {
      throw new Fault("UNAVAILABLE", "busy");
    }),
    post("/odd", (_, call) => {
      call.reply("bad", "a\r\nb");
      return json("{}");
    }),
    post("/later", (_, call) => {
      call.signal().addEventListener("abort", () => calls.aborted.push(call.method));
      return new Promise((resolve) => {
        calls.go = () => resolve(json('"late"'));
      });
    }),
    post("/large", () => json(`"${"x".repeat(LARGE)}"`)),
    {
      method: "GET",
      path: "/later",
      about: "",
      handle: () =>
        new Promise((resolve) => {
          calls.go = () => resolve(json('"slow"'));
        }),
    },
  ];
}

/** Longer than any test, so that a drain that waits for it is noticed. */
const LONG_GRACE = { accept_for: 0, grace: 60_000 };

async function openTestPort(t: TestContext, http: Overrides["http"] = {}, clock = realClock) {
  const calls = new CallRecord();
  const { meter, http: counted } = memoryMeter();
  const settings = { http, drain: LONG_GRACE };
  const port = await testPort(t, { routes: routes(calls), meter, settings, clock });
  return { calls, counted, port };
}

type Opened = Awaited<ReturnType<typeof openTestPort>>;

const asking = (path: string, body = "{}", more = "") =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\n${more}content-length: ${body.length}\r\n\r\n${body}`;

/** Reads replies one after another. */
class Reader {
  readonly #socket: Socket;
  #seen = "";
  closed = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      this.#seen += chunk;
    });
    socket.on("close", () => {
      this.closed = true;
    });
  }

  /** The next reply as received, without its date. */
  async reply(): Promise<string> {
    const length = () => {
      const head = this.#seen.indexOf("\r\n\r\n");
      if (head < 0) return Number.POSITIVE_INFINITY;
      const [, contentLength] = /\r\ncontent-length: (\d+)\r\n/i.exec(this.#seen) ?? [];
      return head + 4 + Number(contentLength);
    };
    await until("a reply", () => this.#seen.length >= length() || this.closed);
    const end = length();
    assert.ok(this.#seen.length >= end, `closed after: ${this.#seen}`);
    const reply = this.#seen.slice(0, end);
    this.#seen = this.#seen.slice(end);
    return reply.replace(/\r\nDate: [^\r]*GMT\r\n/, "\r\n");
  }

  async ask(text: string): Promise<string> {
    this.#socket.write(text);
    return this.reply();
  }
}

test("replies equal those of Node's server byte for byte", async (t) => {
  const { calls, counted, port } = await openTestPort(t);
  const cases = {
    "a body, a query, a header": [
      200,
      (more: string) => asking("/echo?q=1", "{1}", `x-a: b\r\n${more}`),
    ],
    "an empty body": [200, (more: string) => asking("/echo", "", more)],
    bytes: [200, (more: string) => asking("/bytes", "{}", more)],
    "non-ASCII text": [200, (more: string) => asking("/text", "{}", more)],
    "a refusal": [503, (more: string) => asking("/busy", "{}", more)],
    "a reply that cannot be sent": [500, (more: string) => asking("/odd", "{}", more)],
    "no such path": [404, (more: string) => asking("/none", "{}", more)],
    "another type": [
      415,
      (more: string) => asking("/echo", "{}", `content-type: text/plain\r\n${more}`),
    ],
    "a body beyond the limit": [413, (more: string) => asking("/echo", "x".repeat(1_001), more)],
    "a deadline that has passed": [
      504,
      (more: string) => asking("/echo", "{}", `grpc-timeout: 0S\r\n${more}`),
    ],
  } as const;
  for (const [what, [status, ask]] of Object.entries(cases)) {
    const [plain, other] = [new Reader(dial(t, port)), new Reader(dial(t, port))];
    const [mine, theirs] = [await plain.ask(ask("")), await other.ask(ask(NOT_PLAIN))];
    assert.ok(mine.startsWith(`HTTP/1.1 ${status} `), `${what}: ${mine}`);
    // Node's server refuses after the head, before the body, and then ends the connection.
    const kept = theirs.replace("\r\nConnection: close\r\n", KEPT);
    assert.equal(mine, status < 500 ? kept : theirs, what);
    // The connection stays open.
    assert.ok((await plain.ask(asking("/echo"))).startsWith("HTTP/1.1 200 "), what);
  }
  assert.ok(calls.ways.includes("plain") && calls.ways.includes("other"));
  const told = counted.map(({ method, status, route }) => `${method} ${status} ${route}`);
  for (const each of new Set(told)) {
    const times = told.filter((one) => one === each).length;
    if (!each.startsWith("POST 200")) assert.equal(times, 2, each);
  }
});

test("the date of a reply is current to the second", async (t) => {
  const clock = fakeClock();
  const { port } = await openTestPort(t, {}, clock);
  const socket = dial(t, port);
  const told = async () => {
    socket.write(asking("/echo"));
    const chunk: Buffer = await new Promise((resolve) => socket.once("data", resolve));
    return Date.parse(/\r\nDate: ([^\r]*)\r\n/.exec(chunk.toString())?.[1] ?? "");
  };
  const first = clock.wall();
  for (const [ms, later] of [
    [0, 0],
    [999, 0],
    [1, 1_000],
  ] as const) {
    clock.advance(ms);
    assert.equal(await told(), first + later);
  }
});

test("a connection moves to Node's server with its first other request and stays there", async (t) => {
  const { calls, port } = await openTestPort(t);
  const reader = new Reader(dial(t, port));
  const says = async (text: string) => (await reader.ask(text)).replace(/^.*\r\n\r\n/s, "");
  assert.equal(await says(asking("/echo", "1")), '["1",null,null]');
  assert.equal(await says(asking("/echo", "2")), '["2",null,null]');
  const chunked = `POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n`;
  assert.equal(await says(chunked), '["3",null,null]');
  assert.equal(await says(asking("/echo", "4")), '["4",null,null]');
  assert.deepEqual(calls.ways, ["plain", "plain", "other", "other"]);
});

test("answers a request split at any byte", async (t) => {
  const { calls, port } = await openTestPort(t);
  const whole = asking("/echo", '{"a":1}');
  const cuts = Array.from({ length: whole.length - 1 }, (_, at) => at + 1);
  await Promise.all(
    cuts.map(async (cut) => {
      const socket = dial(t, port);
      const reader = new Reader(socket);
      await reader.ask(asking("/echo"));
      socket.write(whole.slice(0, cut));
      await arrived(socket);
      assert.match(
        await reader.ask(whole.slice(cut)),
        /\["\{\\"a\\":1\}",null,null\]$/,
        `cut at ${cut}`,
      );
    }),
  );
  assert.equal(calls.ways.filter((way) => way === "other").length, cuts.length);
});

test("answers pipelined requests in order when the first one waits", async (t) => {
  const { calls, port } = await openTestPort(t);
  const socket = dial(t, port);
  const reader = new Reader(socket);
  socket.write(asking("/later"));
  await until("the call", () => calls.go !== undefined);
  socket.write(asking("/echo", "1"));
  await arrived(socket);
  socket.write(asking("/echo", "2") + asking("/echo", "3"));
  await arrived(socket);
  assert.deepEqual(calls.ways, ["plain"], "only one handler runs at a time");
  calls.go?.();
  assert.match(await reader.reply(), /"late"$/);
  for (const each of [1, 2, 3]) assert.match(await reader.reply(), new RegExp(`\\["${each}",`));
  assert.match(await reader.ask(asking("/echo", "4")), /\["4",/);
});

test("does not buffer without limit for a client that sends while it waits", async (t) => {
  const { calls, port } = await openTestPort(t);
  const socket = dial(t, port);
  socket.write(asking("/later"));
  await until("the call", () => calls.go !== undefined);
  const flood = Buffer.from(asking("/echo").repeat(10_000));
  for (let times = 0; times < 100; times++) socket.write(flood);
  const other = new Reader(dial(t, port));
  // The server reads from both sockets in the same turns.
  for (let turns = 0; turns < 100; turns++) await other.ask(asking("/echo"));
  const read = serverEnd(socket)?.bytesRead ?? 0;
  assert.ok(read > 0 && read < MAX_READ, `${read} bytes were read`);
  for (let turns = 0; turns < 100; turns++) await other.ask(asking("/echo"));
  assert.equal(serverEnd(socket)?.bytesRead, read, "it reads on");
});

test("notices a client that leaves before its reply, with or without pipelined bytes", async (t) => {
  for (const behind of ["", asking("/echo")]) {
    const { calls, counted, port } = await openTestPort(t);
    const socket = dial(t, port);
    socket.write(asking("/later"));
    await until("the call", () => calls.go !== undefined);
    if (behind !== "") {
      socket.write(behind);
      await arrived(socket);
    }
    socket.destroy();
    await until("the end of the call", () => calls.aborted.length === 1);
    assert.deepEqual(
      counted.map(({ status }) => status),
      [0],
    );
    calls.go?.();
    await new Reader(dial(t, port)).ask(asking("/echo"));
    assert.deepEqual(
      counted.map(({ status }) => status),
      [0, 200],
      "counted once",
    );
  }
});

test("a client that half-closes gets the replies that are ready, then the end", async (t) => {
  const { calls, port } = await openTestPort(t);
  const socket = dial(t, port);
  socket.pause();
  socket.end(asking("/large"));
  await until("the call", () => calls.ways.length === 1);
  await offered(socket);
  assert.equal((await readAll(socket.resume())).replace(/^.*?\r\n\r\n/s, "").length, LARGE + 2);
  const waiting = dial(t, port);
  waiting.end(asking("/later"));
  await until("the end of the call", () => calls.aborted.length === 1);
  const idle = dial(t, port);
  await new Reader(idle).ask(asking("/echo"));
  const ended = new Promise((resolve) => idle.once("end", resolve));
  idle.end();
  await ended;
});

test("sends a long reply completely, and then the next one", async (t) => {
  const { calls, counted, port } = await openTestPort(t);
  const socket = dial(t, port);
  socket.pause();
  socket.write(asking("/large"));
  await until("the call", () => calls.ways.length === 1);
  socket.write(asking("/echo", "next"));
  await offered(socket);
  assert.deepEqual(
    [calls.ways, counted],
    [["plain"], []],
    "the reply has not been sent, and no other has begun",
  );
  const reader = new Reader(socket.resume());
  assert.equal((await reader.reply()).replace(/^.*\r\n\r\n/s, "").length, LARGE + 2);
  assert.match(await reader.reply(), /\["next",/);
  assert.equal(counted.length, 2);
});

test("write_timeout ends a connection whose client does not read", async (t) => {
  const { calls, counted, port } = await openTestPort(t, { write_timeout: 100 });
  const socket = dial(t, port);
  socket.pause();
  socket.write(asking("/large"));
  await until("the end", () => counted.length === 1);
  assert.deepEqual(calls.ways, ["plain"]);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.resume();
  await closed;
});

test("write_timeout answers 503 for a slow handler and keeps the connection", async (t) => {
  const { calls, port } = await openTestPort(t, { write_timeout: 50 });
  const reader = new Reader(dial(t, port));
  assert.match(await reader.ask(asking("/later")), /^HTTP\/1\.1 503 /);
  assert.deepEqual(calls.aborted, ["/later"]);
  calls.go?.();
  assert.match(await reader.ask(asking("/echo", "next")), /\["next",/);
});

test("idle_timeout ends a connection between requests, but not one that waits for its reply", async (t) => {
  const { calls, port } = await openTestPort(t, { idle_timeout: 100 });
  const idle = new Reader(dial(t, port));
  assert.match(await idle.ask(asking("/echo")), /\r\nKeep-Alive: timeout=0\r\n/);
  const waiting = new Reader(dial(t, port));
  const late = waiting.ask(asking("/later"));
  await until("the end of the idle one", () => idle.closed);
  // This one becomes idle after the other has begun to wait: when it ends, the time is over for both.
  const later = new Reader(dial(t, port));
  await later.ask(asking("/echo"));
  await until("the end of the later one", () => later.closed);
  assert.equal(waiting.closed, false);
  calls.go?.();
  assert.match(await late, /"late"$/);
  await until("its end, then", () => waiting.closed);
  assert.deepEqual(calls.ways, ["plain", "plain", "plain"]);
});

test("idle_timeout 0 means no limit, and no keep-alive timeout is announced", async (t) => {
  const { port } = await openTestPort(t, { idle_timeout: 0 });
  const sockets = [dial(t, port), dial(t, port)] as const;
  const [plain, other] = [new Reader(sockets[0]), new Reader(sockets[1])];
  const told = await plain.ask(asking("/echo"));
  assert.equal(told, await other.ask(asking("/echo", "{}", NOT_PLAIN)));
  assert.doesNotMatch(told, /timeout/);
  for (const socket of sockets) assert.equal(serverEnd(socket)?.timeout, 0);
});

test("a drain ends idle connections at once, and others after their reply", async (t) => {
  const { calls, port } = await openTestPort(t);
  const idle = new Reader(dial(t, port));
  await idle.ask(asking("/echo"));
  const waiting = new Reader(dial(t, port));
  const late = waiting.ask(asking("/later"));
  await until("the call", () => calls.go !== undefined);
  const drained = port.drain();
  await until("the end of the idle one", () => idle.closed);
  assert.equal(waiting.closed, false);
  calls.go?.();
  assert.match(await late, /\r\nConnection: close\r\n/);
  await until("its end", () => waiting.closed);
  await drained;
  assert.deepEqual(calls.ways, ["plain", "plain"]);
});

test("a drain waits only for replies that are being sent", async (t) => {
  for (const more of ["", NOT_PLAIN]) {
    const { calls, port } = await openTestPort(t);
    const socket = dial(t, port);
    socket.pause();
    socket.write(asking("/large", "{}", more));
    await until("the call", () => calls.ways.length === 1);
    const drained = port.drain();
    await offered(socket);
    const reader = new Reader(socket.resume());
    assert.equal((await reader.reply()).replace(/^.*\r\n\r\n/s, "").length, LARGE + 2, more);
    await until("its end", () => reader.closed);
    await drained;
  }
});

/** A connection that has moved to Node's server, whose request waits for `calls.go`; returns its reply. */
async function movedAndWaiting(t: TestContext, { calls, port }: Opened) {
  const reader = new Reader(dial(t, port));
  await reader.ask(asking("/echo"));
  const reply = reader.ask("GET /later HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("the call", () => calls.go !== undefined);
  return { reply };
}

/** A connection of the fast path that has become idle. */
async function idleConnection(t: TestContext, { port }: Opened) {
  const reader = new Reader(dial(t, port));
  await reader.ask(asking("/echo"));
  return reader;
}

test("a connection moved to Node's server is left alone by the idle_timeout of the fast path", async (t) => {
  const opened = await openTestPort(t, { idle_timeout: 50 });
  const { reply } = await movedAndWaiting(t, opened);
  // It has become idle later: when it ends, the time is over for both.
  const idle = await idleConnection(t, opened);
  await until("the end of the idle one", () => idle.closed);
  opened.calls.go?.();
  assert.match(await reply, /"slow"$/);
});

test("a connection moved to Node's server is left alone by the drain of the fast path", async (t) => {
  const opened = await openTestPort(t, { idle_timeout: 0 });
  const { reply } = await movedAndWaiting(t, opened);
  const idle = await idleConnection(t, opened);
  const drained = opened.port.drain();
  await until("the drain ends the idle one", () => idle.closed);
  opened.calls.go?.();
  assert.match(await reply, /"slow"$/);
  await drained;
});

test("a port that begins to drain still answers, with connection: close", async (t) => {
  const calls = new CallRecord();
  const settings = { drain: { ...LONG_GRACE, accept_for: 300 } };
  const port = await testPort(t, { routes: routes(calls), settings });
  const reader = new Reader(dial(t, port));
  await reader.ask(asking("/echo"));
  const drained = port.drain();
  assert.match(await reader.ask(asking("/echo")), /^HTTP\/1\.1 200 .*\r\nConnection: close\r\n/s);
  await until("its end", () => reader.closed);
  await drained;
});

test("disable_http_keep_alives sends every connection to Node's server", async (t) => {
  const { calls, port } = await openTestPort(t, { disable_http_keep_alives: true });
  assert.match(await new Reader(dial(t, port)).ask(asking("/echo")), /\r\nConnection: close\r\n/);
  assert.deepEqual(calls.ways, ["other"]);
});

test("max_header_bytes applies to both paths", async (t) => {
  const { calls, port } = await openTestPort(t, { max_header_bytes: 200 });
  const ask = (size: number) =>
    new Reader(dial(t, port)).ask(asking("/echo", "{}", `x-a: ${"y".repeat(size)}\r\n`));
  assert.match(await ask(10), /^HTTP\/1\.1 200 /);
  assert.match(await ask(200), /^HTTP\/1\.1 431 /);
  assert.deepEqual(calls.ways, ["plain"]);
});

test("a request that arrives with the end of its connection is answered, also when it has to wait for its turn", async (t) => {
  const port = await testPort(t, { routes: routes(new CallRecord()) });
  const text = (body: string) =>
    `POST /echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  // Many at once: while connections are accepted, their requests wait.
  const replies = await Promise.all(
    Array.from({ length: 50 }, async (_, at) => {
      const socket = connect({ host: port.host, port: port.port, allowHalfOpen: true });
      t.after(() => socket.destroy());
      socket.end(at % 2 === 0 ? text("{}") : "GET /none HTTP/1.1\r\nhost: a\r\n\r\n");
      return readAll(socket);
    }),
  );
  for (const [at, reply] of replies.entries())
    assert.match(reply, at % 2 === 0 ? /^HTTP\/1.1 200 / : /^HTTP\/1.1 404 /);
});
