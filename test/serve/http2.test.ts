import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { test } from "node:test";
import type { Exchange, Head, Stream } from "#serve/h2/exchange.ts";
import type { FixedBlock } from "#serve/h2/hpack/encoder.ts";
import { MAX_FIELDS, MAX_REPLY_HELD } from "#serve/h2/limits.ts";
import type { Call, HttpReply, HttpRequest, Route } from "#serve/handler.ts";
import { httpTransport } from "#serve/http/transport.ts";
import { type FakeClock, fakeClock } from "../kit/clock.ts";
import { memoryLog, memoryMeter, portSettings } from "../kit/port.ts";

/** A stream that takes as much as it is told to, and remembers what was asked of it. */
class FakeStream implements Stream {
  readonly peer = "192.0.2.1";
  readonly socket = new Duplex();
  readonly blocks: (readonly string[])[] = [];
  readonly told: string[] = [];
  body = "";
  /** Bytes that the peer takes now. */
  window = Number.POSITIVE_INFINITY;
  /** Bytes that may be held. */
  room = Number.POSITIVE_INFINITY;
  held = 0;
  credited = 0;
  working = 0;
  ended = false;
  resetWith: number | undefined;

  get closed(): boolean {
    return this.ended || this.resetWith !== undefined;
  }

  answer(_head: FixedBlock): void {
    throw new Error("an answer of gRPC");
  }

  headers(fields: readonly string[], last: boolean): void {
    assert.ok(!this.closed, "headers after the end");
    this.blocks.push(fields);
    this.ended = last;
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    assert.ok(!this.closed, "data after the end");
    this.body += Buffer.from(bytes).toString("latin1");
    this.window -= bytes.length;
    if (this.window < 0) return false;
    this.ended = last;
    return true;
  }

  reset(code: number): void {
    assert.ok(!this.closed, "reset after the end");
    this.resetWith = code;
  }

  credit(bytes: number): void {
    this.credited += bytes;
  }

  hold(bytes: number): boolean {
    if (this.held + bytes > this.room) return false;
    this.held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.held -= bytes;
    assert.ok(this.held >= 0, "more was released than was held");
  }

  charge(calls: number): void {
    assert.fail(`${calls} broken calls to pay for`);
  }

  work(): void {
    this.working++;
  }

  rest(): void {
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

const head = (over: Partial<Head> = {}): Head => ({
  method: "POST",
  path: "/check",
  scheme: "http",
  authority: "sluice:8080",
  fields: [],
  size: 0,
  overflow: false,
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
  const transport = httpTransport({ routes, settings, clock, log, meter });
  transport.cut();
  const ask = (over: Partial<Head>, last: boolean, stream = new FakeStream()) => {
    const exchange = transport.answerer(stream, head(over), last);
    return { stream, exchange };
  };
  return { ask, counted, clock, transport, log };
}

function send(exchange: Exchange, text: string, last: boolean): void {
  const bytes = Buffer.from(text, "latin1");
  exchange.data(bytes, 0, bytes.length, last);
}

test("a body comes in parts of any size and is one; what is kept is accounted for", () => {
  const { ask } = opened([post]);
  const { exchange, stream } = ask({}, false);
  let sent = "";
  for (let part = 0; part < 300; part++) {
    // Parts lie in the memory of larger reads.
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

test("who has no room for a body is told so, whoever sends too much as well", () => {
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

test("a handler sees the headers as over HTTP/1.1", () => {
  let seen: HttpRequest["headers"] = {};
  const look = get("/", ({ headers }, call) => {
    seen = headers;
    return { status: 200, headers: {}, body: call.peer };
  });
  const { ask } = opened([look]);
  const fields = [
    ...["cookie", "a=1", "x-twice", "one", "cookie", "b=2", "user-agent", "first"],
    ...["x-twice", "two", "user-agent", "second", "set-cookie", "a", "set-cookie", "b"],
    ...["host", "another", "constructor", "odd", "__proto__", "odder"],
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

test("one head's headers are worked out once, unless gRPC remembers something there", () => {
  const seen: HttpRequest["headers"][] = [];
  const look = get("/", ({ headers }) => {
    seen.push(headers);
    return { status: 200, headers: {}, body: "" };
  });
  const { transport } = opened([look]);
  const shared = head({ method: "GET", path: "/" });
  transport.answerer(new FakeStream(), shared, true);
  transport.answerer(new FakeStream(), shared, true);
  assert.equal(seen[0], seen[1]);
  const taken = head({ method: "GET", path: "/", memo: "of gRPC" });
  transport.answerer(new FakeStream(), taken, true);
  assert.equal(taken.memo, "of gRPC");
});

test("fields that speak of connections are not sent, names go in lower case, bad ones not at all", () => {
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

test("HEAD and empty replies end with their head", () => {
  const { ask } = opened([
    get("/", () => ({ status: 200, headers: {}, body: "four" })),
    get("/none", () => ({ status: 204, headers: {}, body: "" })),
  ]);
  const asked = ask({ method: "HEAD", path: "/" }, true).stream;
  assert.deepEqual([asked.field("content-length"), asked.body, asked.ended], ["4", "", true]);
  assert.ok(ask({ method: "GET", path: "/none" }, true).stream.ended);
});

test("who asks before sending is told yes, or is refused unsent", () => {
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

test("too many headers, which the stream has counted, are 431", () => {
  const { ask } = opened([post]);
  assert.equal(ask({ overflow: true }, true).stream.status, "431");
  const fields = Array.from({ length: 2 * MAX_FIELDS }, () => "x");
  assert.equal(ask({ fields }, true).stream.status, "200");
});

test("a request that does not become whole in time is 408, wanted or not; an unwanted body is read and let go", () => {
  const { ask, counted } = opened([
    post,
    get("/bare", ({ body }) => ({ status: 200, headers: {}, body: `${body.length}` })),
  ]);
  const { exchange, stream } = ask({}, false);
  send(exchange, "some", false);
  exchange.slow();
  assert.deepEqual([stream.status, JSON.parse(stream.body).code], ["408", 4]);
  assert.equal(counted.length, 1);
  const unread = ask({ method: "GET", path: "/bare" }, false);
  send(unread.exchange, "nobody reads this", false);
  assert.equal(unread.stream.status, undefined);
  send(unread.exchange, "nor this", true);
  assert.deepEqual([unread.stream.status, unread.stream.body], ["200", "0"]);
  const late = ask({ method: "GET", path: "/bare" }, false);
  late.exchange.slow();
  assert.equal(late.stream.status, "408");
});

test("what nobody waits for any more is aborted, and holds its place until it has noticed", async () => {
  const clock = fakeClock();
  let pending: Call | undefined;
  let settle: (reply: HttpReply) => void = () => undefined;
  const wait = get("/wait", (_, call) => {
    pending = call;
    call.signal();
    return new Promise((resolve) => {
      settle = resolve;
    });
  });
  const { ask, counted } = opened([wait], clock);
  const abandon = {
    gone: (exchange: Exchange) => exchange.gone(),
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
    assert.equal(stream.status, statuses[how]);
    assert.equal(stream.working, 1);
    settle({ status: 200, headers: {}, body: "late" });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(stream.working, 0);
    assert.equal(stream.status, statuses[how], "one reply");
    assert.equal(clock.alarms, 0, "no alarm is left");
  }
  assert.deepEqual(
    counted.map(({ status }) => status),
    [0, 504, 503],
  );
});

test("a body counts as long as its handler is at work on it, in one part or many, late or left", async () => {
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
    gone: (exchange) => exchange.gone(),
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
      assert.ok(stream.held >= size, `${how}: it is still needed`);
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

test("a deadline that passes while the reply waits for its reader neither aborts nor is told", async () => {
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
  assert.equal(clock.alarms, 2, "its deadline and write_timeout");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([stream.ended, clock.alarms], [false, 1]);
  clock.advance(500);
  stream.window = 1_000_000;
  exchange.drained();
  assert.deepEqual([stream.ended, pending?.signal().aborted], [true, false]);
  assert.deepEqual([counted[0]?.status, counted.length, clock.alarms], [200, 1, 0]);
  assert.deepEqual(log.lines, []);
});

test("a very long reply counts as much as one peer may well have", () => {
  const { ask } = opened([
    get("/", () => ({ status: 200, headers: {}, body: Buffer.alloc(2 * MAX_REPLY_HELD) })),
  ]);
  const stream = new FakeStream();
  stream.window = 0;
  ask({ method: "GET", path: "/" }, true, stream);
  assert.equal(stream.held, MAX_REPLY_HELD);
  const refused = new FakeStream();
  refused.window = 0;
  refused.room = MAX_REPLY_HELD - 1;
  ask({ method: "GET", path: "/" }, true, refused);
  assert.deepEqual([refused.held, refused.closed], [0, true]);
});

test("a long reply waits for its reader, in parts, and is cut when that takes too long", () => {
  const body = "0123456789abcdef".repeat(20_000);
  const { ask, counted, clock } = opened([
    get("/", () => ({ status: 200, headers: {}, body: Buffer.from(body) })),
  ]);
  const stream = new FakeStream();
  stream.window = 100_000;
  const { exchange } = ask({ method: "GET", path: "/" }, true, stream);
  assert.ok(stream.body.length < 200_000, "no more than the part that did not fit");
  assert.equal(stream.held, body.length, "none of it is free before the last byte is sent");
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
  assert.equal(slow.resetWith, 8);
  assert.deepEqual([counted.length, clock.alarms], [2, 0]);

  const full = new FakeStream();
  full.window = 0;
  full.room = 1_000;
  ask({ method: "GET", path: "/" }, true, full);
  assert.equal(full.resetWith, 8);
  assert.deepEqual([counted.length, clock.alarms], [3, 0]);
});

test("while the port drains, what the connection still takes is answered: its GOAWAY says what that is", () => {
  const { ask, transport } = opened([post]);
  transport.leave();
  assert.equal(ask({}, true).stream.status, "200");
  transport.drain(1_000);
  assert.equal(ask({}, true).stream.status, "200");
});
