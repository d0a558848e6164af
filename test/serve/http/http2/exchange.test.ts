import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { test } from "node:test";
import type { Call, Held, HttpReply, HttpRequest, Route } from "#base/handler.ts";
import type { Exchange, FixedBlock, RequestHead, RequestStream } from "#h2/exchange.ts";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { HttpServer } from "#serve/http/http-server.ts";
import { MAX_BUFFERED_PER_REPLY } from "#serve/http/http2/exchange.ts";
import { type FakeClock, fakeClock } from "../../../kit/clock.ts";
import { memoryLog } from "../../../kit/sluice/log.ts";
import { memoryMeter, portSettings } from "../../../kit/sluice/port.ts";

/** A stream that accepts as much as the test allows and records what the exchange sends. */
class FakeStream implements RequestStream {
  readonly peer = "192.0.2.1";
  readonly socket = new Duplex();
  readonly blocks: (readonly string[])[] = [];
  readonly told: string[] = [];
  readonly unconfirmed: Held[] = [];
  body = "";
  /** Send window: bytes that the peer accepts now. */
  window = Number.POSITIVE_INFINITY;
  /** Most bytes that may be buffered. */
  room = Number.POSITIVE_INFINITY;
  held = 0;
  credited = 0;
  working = 0;
  ended = false;
  cancelled = false;

  get localClosed(): boolean {
    return this.ended || this.cancelled;
  }

  respond(_head: FixedBlock): void {
    throw new Error("an answer of gRPC");
  }

  headers(fields: readonly string[], last: boolean): void {
    assert.ok(!this.localClosed, "HEADERS after the end of the stream");
    this.blocks.push(fields);
    this.ended = last;
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    assert.ok(!this.localClosed, "DATA after the end of the stream");
    this.body += Buffer.from(bytes).toString("latin1");
    this.window -= bytes.length;
    if (this.window < 0) return false;
    this.ended = last;
    return true;
  }

  releaseIfUndelivered(held: Held): void {
    this.unconfirmed.push(held);
  }

  cancel(): void {
    assert.ok(!this.localClosed, "RST_STREAM after the end of the stream");
    this.cancelled = true;
  }

  extendReceiveWindow(bytes: number): void {
    this.credited += bytes;
  }

  reserve(bytes: number): boolean {
    if (this.held + bytes > this.room) return false;
    this.held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.held -= bytes;
    assert.ok(this.held >= 0, "more bytes released than were buffered");
  }

  charge(calls: number): void {
    assert.fail(`charged for ${calls} broken calls`);
  }

  handlerStarted(): void {
    this.working++;
  }

  handlerFinished(): void {
    this.working--;
  }

  get status(): string | undefined {
    return this.blocks.at(-1)?.[1];
  }

  field(name: string): string | undefined {
    const fields = this.blocks.at(-1) ?? [];
    const at = fields.findIndex((each, index) => index % 2 === 0 && each === name);
    return at === -1 ? undefined : fields[at + 1];
  }
}

const head = (over: Partial<RequestHead> = {}): RequestHead => ({
  method: "POST",
  path: "/check",
  scheme: "http",
  authority: "sluice:8080",
  fields: [],
  size: 0,
  flaw: undefined,
  contentLength: -1,
  memo: undefined,
  ...over,
});

const echo = ({ body }: HttpRequest): HttpReply => ({
  status: 200,
  headers: { "content-type": "text/plain" },
  body: Buffer.from(body).toString("latin1"),
});
const post: Route = { method: "POST", path: "/check", about: "", maxBody: 100_000, handle: echo };
const get = (path: string, handle: Route["handle"]): Route => ({
  method: "GET",
  path,
  about: "",
  handle,
});

function opened(routes: readonly Route[], clock: FakeClock = fakeClock()) {
  const { meter, http: counted } = memoryMeter();
  const log = memoryLog();
  const settings = portSettings({ http: { write_timeout: 1_000 } }).http;
  const transport = new HttpServer({
    scheduler: new ReadScheduler(clock),
    routes,
    settings,
    clock,
    log,
    meter,
  });
  transport.cut();
  const ask = (over: Partial<RequestHead>, last: boolean, stream = new FakeStream()) => {
    const exchange = transport.handleRequest(stream, head(over), last);
    return { stream, exchange };
  };
  return { ask, counted, clock, transport, log };
}

function send(exchange: Exchange, text: string, last: boolean): void {
  const bytes = Buffer.from(text, "latin1");
  exchange.data(bytes, 0, bytes.length, last);
}

test("joins a body from parts of any size and accounts for what it buffers", () => {
  const { ask } = opened([post]);
  const { exchange, stream } = ask({}, false);
  let sent = "";
  for (let part = 0; part < 300; part++) {
    // The parts lie in larger read buffers.
    const bytes = Buffer.alloc(50, "-");
    const text = "abcdefghijklm".slice(part % 13);
    bytes.write(text, 7);
    exchange.data(bytes, 7, 7 + text.length, false);
    sent += text;
    assert.ok(stream.held >= sent.length && stream.held <= Math.max(4_096, 2 * sent.length));
    assert.equal(stream.credited, sent.length);
  }
  exchange.data(Buffer.alloc(0), 0, 0, true);
  assert.equal(stream.body, sent);
  assert.equal(stream.held, 0);
  assert.equal(stream.field("content-length"), String(sent.length));
  assert.ok(stream.ended);
});

test("refuses a body for which there is no buffer space, and one that is too long", () => {
  const { ask, counted } = opened([post]);
  const full = new FakeStream();
  full.room = 10;
  const refused = ask({}, false, full);
  send(refused.exchange, "x".repeat(11), false);
  assert.deepEqual([full.status, JSON.parse(full.body).code, full.held], ["503", 8, 0]);
  const { exchange, stream } = ask({}, false);
  send(exchange, "x".repeat(60_000), false);
  send(exchange, "x".repeat(60_000), false);
  assert.deepEqual([stream.status, JSON.parse(stream.body).code, stream.held], ["413", 8, 0]);
  send(exchange, "x".repeat(60_000), true);
  assert.equal(stream.blocks.length, 1);
  const early = ask({ fields: ["content-length", "100001"], contentLength: 100_001 }, false);
  assert.equal(early.stream.status, "413");
  assert.deepEqual(
    counted.map(({ status }) => status),
    [503, 413, 413],
  );
});

test("passes the same headers to the handler as over HTTP/1.1", () => {
  let seen: HttpRequest["headers"] = {};
  const look = get("/", ({ headers }, call) => {
    seen = headers;
    return { status: 200, headers: {}, body: call.peer };
  });
  const { ask } = opened([look]);
  const fields = [
    "cookie",
    "a=1",
    "x-twice",
    "one",
    "cookie",
    "b=2",
    "user-agent",
    "first",
    "x-twice",
    "two",
    "user-agent",
    "second",
    "set-cookie",
    "a",
    "set-cookie",
    "b",
    "host",
    "another",
    "constructor",
    "odd",
    "__proto__",
    "odder",
  ];
  const { stream } = ask({ method: "GET", path: "/", fields }, true);
  assert.equal(stream.body, "192.0.2.1");
  assert.deepEqual(Object.entries(seen), [
    ["host", "sluice:8080"],
    ["cookie", "a=1; b=2"],
    ["x-twice", "one, two"],
    ["user-agent", "first"],
    ["set-cookie", ["a", "b"]],
    ["constructor", "odd"],
    ["__proto__", "odder"],
  ]);
});

test("converts the headers of a cached head once, unless gRPC has stored its memo there", () => {
  const seen: HttpRequest["headers"][] = [];
  const look = get("/", ({ headers }) => {
    seen.push(headers);
    return { status: 200, headers: {}, body: "" };
  });
  const { transport } = opened([look]);
  const shared = head({ method: "GET", path: "/" });
  transport.handleRequest(new FakeStream(), shared, true);
  transport.handleRequest(new FakeStream(), shared, true);
  assert.equal(seen[0], seen[1]);
  const taken = head({ method: "GET", path: "/", memo: "of gRPC" });
  transport.handleRequest(new FakeStream(), taken, true);
  assert.equal(taken.memo, "of gRPC");
});

test("drops connection-specific reply fields, sends names in lower case, and refuses invalid ones", () => {
  const connection = {
    Connection: "close",
    "keep-alive": "timeout=1",
    "proxy-connection": "close",
  };
  const headers = { ...connection, "transfer-encoding": "chunked", Upgrade: "x", "X-Mine": "1" };
  const { ask, log } = opened([
    get("/", () => ({ status: 200, headers, body: "x" })),
    get("/bad", () => ({ status: 200, headers: { bad: "a\r\nb" }, body: "x" })),
    get("/name", () => ({ status: 200, headers: { "bad name": "a" }, body: "x" })),
  ]);
  const { stream } = ask({ method: "GET", path: "/" }, true);
  assert.deepEqual(stream.blocks, [[":status", "200", "x-mine", "1", "content-length", "1"]]);
  for (const path of ["/bad", "/name"]) {
    assert.equal(ask({ method: "GET", path }, true).stream.status, "500");
  }
  assert.equal(log.lines.length, 2);
});

test("ends HEAD and empty replies with END_STREAM on HEADERS", () => {
  const { ask } = opened([
    get("/", () => ({ status: 200, headers: {}, body: "four" })),
    get("/none", () => ({ status: 204, headers: {}, body: "" })),
  ]);
  const head = ask({ method: "HEAD", path: "/" }, true).stream;
  assert.deepEqual([head.field("content-length"), head.body, head.ended], ["4", "", true]);
  assert.ok(ask({ method: "GET", path: "/none" }, true).stream.ended);
});

test("answers expect: 100-continue with 100, or with a refusal before the body is sent", () => {
  const { ask } = opened([post]);
  const yes = ask({ fields: ["expect", "100-Continue"] }, false);
  assert.deepEqual(yes.stream.blocks, [[":status", "100"]]);
  send(yes.exchange, "body", true);
  assert.deepEqual([yes.stream.status, yes.stream.body], ["200", "body"]);
  const sent = ask({ fields: ["expect", "100-continue"] }, true);
  assert.deepEqual(sent.stream.blocks.length, 1);
  const fields = ["expect", "100-continue", "content-length", "100001"];
  const no = ask({ fields, contentLength: 100_001 }, false);
  assert.deepEqual([no.stream.blocks.length, no.stream.status], [1, "413"]);
});

test("answers a header list that exceeded the limits with 431", () => {
  const { ask } = opened([post]);
  assert.equal(ask({ flaw: "too_large" }, true).stream.status, "431");
  const fields = Array.from({ length: 2 * 1_000 }, () => "x");
  assert.equal(ask({ fields }, true).stream.status, "200");
});

test("answers a request that stays incomplete with 408, whether or not a route takes its body; an unwanted body is discarded", () => {
  const { ask, counted } = opened([
    post,
    get("/bare", ({ body }) => ({ status: 200, headers: {}, body: `${body.length}` })),
  ]);
  const { exchange, stream } = ask({}, false);
  send(exchange, "some", false);
  exchange.timedOut();
  assert.deepEqual([stream.status, JSON.parse(stream.body).code], ["408", 4]);
  assert.equal(counted.length, 1);
  const unread = ask({ method: "GET", path: "/bare" }, false);
  send(unread.exchange, "discarded", false);
  assert.equal(unread.stream.status, undefined);
  send(unread.exchange, "discarded too", true);
  assert.deepEqual([unread.stream.status, unread.stream.body], ["200", "0"]);
  const late = ask({ method: "GET", path: "/bare" }, false);
  late.exchange.timedOut();
  assert.equal(late.stream.status, "408");
});

test("aborts a handler whose caller has gone, and counts it as work until it ends", async () => {
  const clock = fakeClock();
  let pending: Call | undefined;
  let left = 0;
  let settle: (reply: HttpReply) => void = () => undefined;
  const wait = get("/wait", (_, call) => {
    pending = call;
    call.signal();
    call.whenCallerLeaves(() => left++);
    return new Promise((resolve) => {
      settle = resolve;
    });
  });
  const { ask, counted } = opened([wait], clock);
  const abandon = {
    gone: (exchange: Exchange) => exchange.aborted(),
    deadline: () => clock.advance(50),
    "write timeout": () => clock.advance(1_000),
  };
  const statuses = { gone: undefined, deadline: "504", "write timeout": "503" };
  for (const how of ["gone", "deadline", "write timeout"] as const) {
    const fields = how === "write timeout" ? [] : ["grpc-timeout", "50m"];
    const { exchange, stream } = ask({ method: "GET", path: "/wait", fields }, true);
    assert.equal(pending?.signal().aborted, false);
    assert.equal(stream.working, 1);
    abandon[how](exchange);
    assert.equal(pending?.signal().aborted, true, how);
    assert.equal(left, 1, how);
    left = 0;
    assert.equal(stream.status, statuses[how]);
    assert.equal(stream.working, 1);
    settle({ status: 200, headers: {}, body: "late" });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(stream.working, 0);
    assert.equal(stream.status, statuses[how], "exactly one reply");
    assert.equal(clock.alarms, 0, "an alarm is left");
  }
  assert.deepEqual(
    counted.map(({ status }) => status),
    [0, 504, 503],
  );
});

test("counts a body as buffered while its handler works, in one part or many, after a deadline or cancellation too", async () => {
  const clock = fakeClock();
  let settle: () => void = () => undefined;
  const wait: Route = {
    ...post,
    handle: (request) =>
      new Promise((resolve) => {
        settle = () => resolve(echo(request));
      }),
  };
  const { ask } = opened([wait], clock);
  const size = 50_000;
  const ends: Readonly<Record<string, (exchange: Exchange) => void>> = {
    answered: () => undefined,
    gone: (exchange) => exchange.aborted(),
    deadline: () => clock.advance(50),
    "write timeout": () => clock.advance(1_000),
  };
  for (const [how, end] of Object.entries(ends)) {
    for (const parts of [1, 5]) {
      const fields = how === "deadline" ? ["grpc-timeout", "50m"] : [];
      const { exchange, stream } = ask({ fields }, false);
      for (let part = 1; part <= parts; part++)
        send(exchange, "x".repeat(size / parts), part === parts);
      assert.ok(stream.held >= size, how);
      end(exchange);
      assert.ok(stream.held >= size, `${how}: the body was released while its handler works`);
      settle();
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual([stream.held, stream.working, clock.alarms], [0, 0, 0], how);
    }
  }
  const full = new FakeStream();
  full.room = size - 1;
  const { exchange } = ask({ fields: ["grpc-timeout", "50m"] }, false, full);
  send(exchange, "x".repeat(size), true);
  assert.deepEqual([full.status, full.held, full.working, clock.alarms], ["503", 0, 1, 0]);
  settle();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([full.held, full.working], [0, 0]);
});

test("a deadline that passes while the reply waits for window space has no effect", async () => {
  let pending: Call | undefined;
  const soon = get("/soon", async (_, call) => {
    pending = call;
    call.signal();
    return { status: 200, headers: {}, body: "long".repeat(50_000) };
  });
  const { ask, counted, clock, log } = opened([soon]);
  const stream = new FakeStream();
  stream.window = 0;
  const fields = ["grpc-timeout", "50m"];
  const { exchange } = ask({ method: "GET", path: "/soon", fields }, true, stream);
  assert.equal(clock.alarms, 2, "alarms for the deadline and for write_timeout");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([stream.ended, clock.alarms], [false, 1]);
  clock.advance(500);
  stream.window = 1_000_000;
  exchange.drained();
  assert.deepEqual([stream.ended, pending?.signal().aborted], [true, false]);
  assert.deepEqual([counted[0]?.status, counted.length, clock.alarms], [200, 1, 0]);
  assert.deepEqual(log.lines, []);
});

test("limits how much of a very long reply counts as buffered", () => {
  const { ask } = opened([
    get("/", () => ({ status: 200, headers: {}, body: Buffer.alloc(2 * MAX_BUFFERED_PER_REPLY) })),
  ]);
  const stream = new FakeStream();
  stream.window = 0;
  ask({ method: "GET", path: "/" }, true, stream);
  assert.equal(stream.held, MAX_BUFFERED_PER_REPLY);
  const refused = new FakeStream();
  refused.window = 0;
  refused.room = MAX_BUFFERED_PER_REPLY - 1;
  ask({ method: "GET", path: "/" }, true, refused);
  assert.deepEqual([refused.held, refused.localClosed], [0, true]);
});

test("sends a long reply in parts as the window allows, and resets the stream after write_timeout", () => {
  const body = "0123456789abcdef".repeat(20_000);
  const { ask, counted, clock } = opened([
    get("/", () => ({ status: 200, headers: {}, body: Buffer.from(body) })),
  ]);
  const stream = new FakeStream();
  stream.window = 100_000;
  const { exchange } = ask({ method: "GET", path: "/" }, true, stream);
  assert.ok(stream.body.length < 200_000, "more was sent than the window allows");
  assert.equal(
    stream.held,
    body.length,
    "the reply counts as buffered until its last byte is sent",
  );
  assert.equal(counted.length, 0);
  stream.window = 1_000_000;
  exchange.drained();
  assert.equal(stream.body, body);
  assert.ok(stream.ended);
  assert.deepEqual([counted[0]?.status, clock.alarms], [200, 0]);

  const slow = new FakeStream();
  slow.window = 0;
  ask({ method: "GET", path: "/" }, true, slow);
  clock.advance(1_000);
  assert.equal(slow.cancelled, true);
  assert.deepEqual([counted.length, clock.alarms], [2, 0]);

  const full = new FakeStream();
  full.window = 0;
  full.room = 1_000;
  ask({ method: "GET", path: "/" }, true, full);
  assert.equal(full.cancelled, true);
  assert.deepEqual([counted.length, clock.alarms], [3, 0]);
});

test("answers requests that a draining connection still accepts, as its GOAWAY announced", () => {
  const { ask, transport } = opened([post]);
  transport.beginDrain();
  assert.equal(ask({}, true).stream.status, "200");
  transport.drain();
  assert.equal(ask({}, true).stream.status, "200");
});
