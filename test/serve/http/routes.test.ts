import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { request } from "node:http";
import { connect, constants } from "node:http2";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Call, HttpReply, Route } from "#base/handler.ts";
import { MAX_BUFFERED_TOTAL } from "#serve/transport/limits.ts";

import { type ClientReply, http1, http2 } from "../../kit/clients/http.ts";

import { fakeClock } from "../../kit/clock.ts";
import {
  dial,
  exchange,
  memoryMeter,
  type Overrides,
  readAll,
  realClock,
  type TestPort,
  testPort,
} from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const text = (body: string, status = 200): HttpReply => ({
  status,
  headers: { "content-type": "text/plain" },
  body,
});
const route = (over: Partial<Route> & Pick<Route, "path">): Route => ({
  method: "GET",
  about: "",
  handle: () => text("here"),
  ...over,
});
const post = route({
  method: "POST",
  path: "/check",
  body: "json",
  maxBody: 1_000,
  handle: ({ body }) => text(String(body.length)),
});

/**
 * For each HTTP version: its client, a way to cancel a request, and the size of a large body. Node's HTTP/2 client
 * loses a reply that arrives together with RST_STREAM NO_ERROR (RFC 9113 §8.1), so that its large body must be small
 * enough to be sent before the reply.
 */
const VERSIONS = [
  { name: "HTTP/1.1", client: http1, cancel: cancelHttp1, largeBody: 8_000_000 },
  { name: "HTTP/2", client: http2, cancel: cancelHttp2, largeBody: 200_000 },
] as const;

type Version = (typeof VERSIONS)[number];

async function openTestPort(
  t: TestContext,
  routes: readonly Route[],
  http: Overrides["http"] = {},
  version: Version = VERSIONS[0],
  clock: Clock = realClock,
) {
  const { meter, http: counted } = memoryMeter();
  const settings = { http, grpc: { transport: "own" } } as const;
  const port = await testPort(t, { routes, settings, meter, clock });
  const url = `http://${port.address}`;
  return { port, counted, url, ask: version.client(t, url) };
}

/** Opens a port for a test, with a client of the version under test. */
type Serve = (
  routes: readonly Route[],
  http?: Overrides["http"],
  clock?: Clock,
) => ReturnType<typeof openTestPort>;

/** Runs the same test over HTTP/1.1 and over HTTP/2. */
function overBothVersions(
  title: string,
  run: (t: TestContext, serve: Serve, version: Version) => Promise<void>,
): void {
  for (const version of VERSIONS) {
    test(`${title} (${version.name})`, (t) =>
      run(t, (routes, http, clock) => openTestPort(t, routes, http, version, clock), version));
  }
}

/** Begins a request (with the first byte of its body if it has one) and returns a function that cancels it. */
async function cancelHttp1(t: TestContext, port: TestPort, path: string, length = 0) {
  const socket = dial(t, port);
  socket.write(
    length === 0
      ? `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
      : `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\nx`,
  );
  return () => void socket.destroy();
}

async function cancelHttp2(t: TestContext, port: TestPort, path: string, length = 0) {
  const session = connect(`http://${port.address}`);
  t.after(() => session.destroy());
  const stream = session.request({ ":path": path, ":method": length === 0 ? "GET" : "POST" });
  if (length > 0) stream.write("x");
  stream.on("error", () => undefined);
  // With a body, stream.close() would first end the body.
  return () => (length > 0 ? session.destroy() : stream.close(constants.NGHTTP2_CANCEL));
}

const JSON_TYPE = { "content-type": "application/json" };

function refusal(reply: ClientReply): [status: number, code: number, message: string] {
  assert.equal(reply.headers["content-type"], "application/json");
  const body = JSON.parse(reply.body) as { code: number; message: string; details: unknown };
  assert.deepEqual(Object.keys(body), ["code", "message", "details"]);
  assert.deepEqual(body.details, []);
  return [reply.status, body.code, body.message];
}

/** The same as `refusal`, from the raw text of a reply. */
function rawRefusal(reply: string): [status: number, code: number] {
  const [, status, body = ""] = /^HTTP\/1\.1 (\d{3}) .*?\r\n\r\n(.*)$/s.exec(reply) ?? [];
  assert.ok(status !== undefined, `not an HTTP error reply: ${reply}`);
  return [Number(status), (JSON.parse(body) as { code: number }).code];
}

overBothVersions(
  "routes match literal paths, path segments and the rest of a path",
  async (_, serve) => {
    const show =
      (name: string): Route["handle"] =>
      ({ params, query, path }) =>
        text(`${name} ${JSON.stringify(params)} ${query.get("q")} ${path}`);
    const { ask } = await serve([
      route({ path: "/a/{name}/c", handle: show("one") }),
      route({ path: "/a/b/c", handle: show("literal") }),
      route({ path: "/s/{path...}", handle: show("rest") }),
      route({ path: "/p/{service}/{point}", handle: show("two") }),
      route({ path: "/p/{point}", handle: show("single") }),
    ]);
    const found = {
      "/a/b/c": "literal {} null /a/b/c",
      "/a/x%2Fy/c?q=1%20": 'one {"name":"x/y"} 1  /a/x%2Fy/c',
      "/s": 'rest {"path":""} null /s',
      "/s/": 'rest {"path":""} null /s/',
      "/s/b/%C3%A4": 'rest {"path":"b/ä"} null /s/b/%C3%A4',
      "/p/x": 'single {"point":"x"} null /p/x',
      "/p/x/y": 'two {"service":"x","point":"y"} null /p/x/y',
    };
    for (const [path, body] of Object.entries(found))
      assert.equal((await ask({ path })).body, body);
    for (const path of [
      "/a",
      "/a//c",
      "/a/b/c/",
      "/A/b/c",
      "/a/b/c/d",
      "/p/",
      "/a%2Fb%2Fc",
      "//s",
    ]) {
      assert.deepEqual(refusal(await ask({ path })), [404, 5, "Not Found"], path);
    }
    assert.deepEqual(refusal(await ask({ path: "/a/%ff/c" })).slice(0, 2), [400, 3]);
  },
);

test("rejects a route table with a duplicate, or with a rest parameter before the end", async (t) => {
  const twice = [route({ path: "/a" }), route({ path: "/a" })];
  await assert.rejects(testPort(t, { routes: twice }), /twice/);
  await assert.rejects(testPort(t, { routes: [route({ path: "/{a...}/b" })] }), /last/);
});

overBothVersions(
  "answers another method with 405 and the allowed ones; HEAD is allowed with GET",
  async (_, serve) => {
    const { ask } = await serve([post, route({ path: "/both" }), { ...post, path: "/both" }]);
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]) {
      const reply = await ask({ path: "/check", method });
      assert.equal(reply.headers["allow"], "POST");
      assert.equal(reply.status, 405);
      if (method !== "HEAD") assert.deepEqual(refusal(reply), [405, 12, "Method Not Allowed"]);
    }
    const both = await ask({ path: "/both", method: "PATCH" });
    assert.equal(both.headers["allow"], "GET, HEAD, POST");
    const head = await ask({ path: "/both", method: "HEAD" });
    assert.deepEqual([head.status, head.headers["content-length"], head.body], [200, "4", ""]);
  },
);

test("accepts the absolute request target of a proxy", async (t) => {
  const { port } = await openTestPort(t, [
    route({ path: "/here", handle: ({ query }) => text(`${query}`) }),
  ]);
  const reply = await exchange(
    dial(t, port),
    "GET http://any.host:80/here?x=1 HTTP/1.1\r\nhost: any.host\r\nconnection: close\r\n\r\n",
  );
  assert.match(reply, /^HTTP\/1\.1 200 .*\r\n\r\nx=1$/s);
  const asterisk = "OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  assert.match(
    await exchange(dial(t, port), asterisk),
    /^HTTP\/1\.1 404 /,
    "the asterisk form is not a path",
  );
});

overBothVersions(
  "JSON routes accept application/json or no content type, uncompressed",
  async (_, serve) => {
    const { ask: client } = await serve([post]);
    const ask = (headers: Record<string, string>) =>
      client({ path: "/check", method: "POST", body: "{}", headers });
    for (const type of [
      "application/json",
      "Application/JSON; charset=utf-8",
      "application/json ;a=b",
    ]) {
      assert.equal((await ask({ "content-type": type })).status, 200, type);
    }
    assert.equal((await ask({})).status, 200);
    assert.equal((await ask({ ...JSON_TYPE, "content-encoding": "identity" })).status, 200);
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/jsonx",
      "",
    ]) {
      const [status, code] = refusal(await ask({ "content-type": type }));
      assert.deepEqual([status, code], [415, 3], type);
    }
    const gzip = refusal(await ask({ ...JSON_TYPE, "content-encoding": "gzip" }));
    assert.deepEqual(gzip.slice(0, 2), [415, 3]);
  },
);

overBothVersions(
  "answers a body beyond the limit with 413, announced or not, and the reply arrives",
  async (_, serve, { largeBody }) => {
    const { ask: client } = await serve([post]);
    const ask = (size: number, announced: boolean) =>
      client({
        path: "/check",
        method: "POST",
        body: " ".repeat(size),
        headers: { ...JSON_TYPE, ...(announced && { "content-length": String(size) }) },
      });
    for (const announced of [true, false]) {
      assert.equal((await ask(1_000, announced)).body, "1000");
      assert.deepEqual(refusal(await ask(1_001, announced)).slice(0, 2), [413, 8]);
      assert.deepEqual(refusal(await ask(largeBody, announced)).slice(0, 2), [413, 8]);
    }
  },
);

test("answers a body of many chunks beyond the limit with 413", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const chunked = `POST /check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${`3e8\r\n${" ".repeat(1_000)}\r\n`.repeat(2_000)}0\r\n\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), chunked)), [413, 8]);
});

test("lets a client that continues to send read its refusal", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const socket = dial(t, port);
  let seen = "";
  socket.on("data", (chunk) => {
    seen += chunk;
  });
  const ended = new Promise<string>((resolve) => {
    socket.on("error", () => resolve("reset"));
    socket.on("end", () => resolve("end"));
  });
  const body = Buffer.alloc(64 * 1024, " ");
  socket.write("POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n");
  while (seen === "" && !socket.destroyed) {
    socket.write(body);
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (let more = 0; more < 20; more++) {
    socket.write(body);
    await after(1);
  }
  assert.equal(await ended, "end");
  assert.equal(rawRefusal(seen)[0], 413);
});

test("garbage after a request in progress neither replaces its reply nor mixes with it", async (t) => {
  let called = false;
  const slow = route({
    path: "/slow",
    handle: () => {
      called = true;
      return after(100).then(() => text("late"));
    },
  });
  const { port } = await openTestPort(t, [slow]);
  const socket = dial(t, port);
  socket.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("the handler to be called", () => called);
  const said = await exchange(socket, "GARBAGE\r\n\r\n");
  const statuses = [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual(statuses, ["200", "400"]);
  assert.match(said, /\r\n\r\nlateHTTP/, "the complete reply comes first, then the refusal");
});

test("sends the replies to requests that were read together with garbage", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const ask = (body: string) =>
    `POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const said = await exchange(dial(t, port), `${ask("1")}${ask("22")}${ask("333")}GARBAGE\r\n\r\n`);
  const told = [...said.matchAll(/HTTP\/1\.1 (\d+).*?\r\n\r\n(\d?)/gs)].map(([, ...all]) =>
    all.join(),
  );
  assert.deepEqual(told, ["200,1", "200,2", "200,3", "400,"]);
});

test("sends nothing after a reply with connection: close", async (t) => {
  const { port, counted } = await openTestPort(t, [post, route({ path: "/here" })]);
  const last = "connection: close\r\n";
  for (const [sent, status] of [
    [`GET /here HTTP/1.1\r\nhost: x\r\n${last}\r\nGET /here HTTP/1.1\r\nhost: x\r\n\r\n`, "200"],
    [`POST /check HTTP/1.1\r\nhost: x\r\n${last}content-length: 1\r\n\r\n1x`, "200"],
    ["POST /none HTTP/1.1\r\nhost: x\r\nte: x\r\ncontent-length: 2\r\n\r\n{}x", "404"],
    ["HEAD /none HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}x", "404"],
  ] as const) {
    const said = await exchange(dial(t, port), sent);
    const statuses = [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    assert.deepEqual(statuses, [status], sent);
    // A refusal that was not sent is not counted either.
    await until("the reply is counted", () => counted.length > 0);
    assert.deepEqual(
      counted.splice(0).map((one) => String(one.status)),
      [status],
      sent,
    );
  }
});

for (const { name } of VERSIONS) {
  test(`costly requests take turns, too many are refused, and other requests wait for one at most (${name})`, async (t) => {
    let begun = 0;
    let before = 0;
    const costly = route({
      path: "/costly",
      costly: true,
      handle() {
        const end = performance.now() + 2;
        while (performance.now() < end);
        return text(String(begun++));
      },
    });
    const quick = route({
      path: "/quick",
      handle: () => {
        before = begun;
        return text("quick");
      },
    });
    const { port, url, counted } = await openTestPort(t, [costly, quick]);
    const other = dial(t, port);
    await new Promise((resolve) => other.once("connect", resolve));
    const many = 500;
    if (name === "HTTP/2") {
      const ask = http2(t, url);
      await ask({ path: "/costly" });
      for (let made = 0; made < many; made++) void ask({ path: "/costly" });
    } else {
      await exchange(dial(t, port), "GET /costly HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
      dial(t, port).write("GET /costly HTTP/1.1\r\nhost: x\r\n\r\n".repeat(many));
    }
    await until("those", () => begun > 1);
    other.write("GET /quick HTTP/1.1\r\nhost: x\r\n\r\n");
    await until("all", () => counted.length === many + 2);
    const count = (code: number) => counted.filter(({ status }) => status === code).length;
    // One more for each turn over which the burst is spread: the place of the one that runs is free again.
    assert.equal(count(200) + count(503), many + 2);
    assert.ok(count(200) >= 102 && count(200) <= 105, `${count(200)} were answered`);
    assert.ok(before > 0 && before < 50, `answered after ${before} of ${begun} costly requests`);
  });
}

test("limits the total size of unread replies, but still sends small ones", async (t) => {
  const bytes = 8 * 1024 * 1024;
  const large = route({ path: "/large", handle: () => text("x".repeat(bytes)) });
  const { port, counted } = await openTestPort(t, [large, route({ path: "/small" })], {
    write_timeout: 60_000,
  });
  const notReading = Array.from({ length: 4 }, () => dial(t, port).pause());
  for (const socket of notReading) socket.write("GET /large HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5));
  await after(200);
  const other = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), `GET /large ${other}`), /^HTTP\/1\.1 503 /);
  assert.match(await exchange(dial(t, port), `GET /small ${other}`), /^HTTP\/1\.1 200 /);
  for (const socket of notReading) socket.destroy();
  await until("all ended", () => counted.length === 22);
  const count = (status: number) => counted.filter((each) => each.status === status).length;
  assert.deepEqual([count(200), count(503)], [MAX_BUFFERED_TOTAL / bytes + 1, 13]);
  assert.match(await exchange(dial(t, port), `GET /large ${other}`), /^HTTP\/1\.1 200 /);
});

overBothVersions(
  "accepts bodies up to 1 MiB by default and delivers them unchanged",
  async (_, serve) => {
    const { maxBody: __, ...unbounded } = post;
    const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
    const { ask: client } = await serve([
      { ...unbounded, handle: ({ body }) => text(digest(body)) },
    ]);
    const ask = (body: string) => client({ path: "/check", method: "POST", body });
    const whole = "0123456789abcdefg".repeat(62_000).slice(0, 1_048_576);
    assert.equal((await ask(whole)).body, digest(Buffer.from(whole)));
    assert.equal((await ask(`${whole}x`)).status, 413);
  },
);

test("answers expect: 100-continue with 100, or with a refusal before the body is sent", async (t) => {
  const { port } = await openTestPort(t, [post]);
  const ask = (size: number) =>
    new Promise<string>((resolve, reject) => {
      const headers = { ...JSON_TYPE, expect: "100-continue", "content-length": size };
      const { host } = port;
      const outgoing = request({
        host,
        port: port.port,
        path: "/check",
        method: "POST",
        headers,
        agent: false,
      });
      let continued = "";
      outgoing.on("continue", () => {
        continued = "continue ";
        outgoing.end(Buffer.alloc(size));
      });
      outgoing.on("response", (reply) => {
        resolve(`${continued}${reply.statusCode}`);
        outgoing.destroy();
      });
      outgoing.on("error", reject);
      outgoing.flushHeaders();
    });
  assert.equal(await ask(10), "continue 200");
  assert.equal(await ask(1_001), "413");
});

overBothVersions(
  "errors do not repeat input, and errors other than Fault reveal nothing",
  async (_, serve) => {
    const { port, ask } = await serve([
      route({
        path: "/now",
        handle: () => {
          throw new Error("the secret");
        },
      }),
      route({ path: "/later", handle: () => Promise.reject(new Error("the secret")) }),
      route({
        path: "/busy",
        handle: (_, call) => {
          call.reply("content-type", "text/odd");
          throw new Fault("UNAVAILABLE", "busy");
        },
      }),
      route({
        path: "/odd",
        handle: () => ({ status: 200, headers: { bad: "a\r\nb" }, body: "" }),
      }),
      route({
        path: "/odd-later",
        handle: async (_, call) => {
          call.reply("bad", "a\r\nb");
          return text("");
        },
      }),
    ]);
    for (const path of ["/now", "/later", "/odd", "/odd-later"]) {
      assert.deepEqual(refusal(await ask({ path })), [500, 13, "internal error"], path);
    }
    assert.equal(port.log.lines.length, 4);
    assert.equal(String(port.log.lines[0]?.fields?.["error"]), "Error: the secret");
    const busy = await ask({ path: "/busy" });
    assert.equal(busy.headers["retry-after"], "1");
    assert.deepEqual(refusal(busy), [503, 14, "busy"]);
    assert.ok(!(await ask({ path: "/canary" })).body.includes("canary"));
  },
);

test("answers malformed requests with 400 and counts them with an empty method", async (t) => {
  const { port, counted } = await openTestPort(t, [post]);
  const malformed = [
    "GARBAGE\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: x\r\nbad header: 1\r\n\r\n",
    "POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
  ];
  for (const sent of malformed) {
    const reply = await exchange(dial(t, port), sent);
    assert.match(reply, /^HTTP\/1\.1 400 /, sent);
  }
  const told = counted.map(({ method, status, route }) => [method, status, route]);
  assert.deepEqual(told, Array(malformed.length).fill(["", 400, ""]));
  counted.length = 0;
  const broken = "POST /check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nrubbish\r\n";
  assert.match(await exchange(dial(t, port), broken), /^HTTP\/1\.1 400 /);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [0],
    "counted once, as the request that it is",
  );
});

test("requires exactly one host field, except over HTTP/1.0", async (t) => {
  const { port, counted } = await openTestPort(t, [route({ path: "/" })]);
  for (const [head, status] of [
    ["GET / HTTP/1.1\r\n", 400],
    ["GET / HTTP/1.1\r\nhost: x\r\nHOST: y\r\n", 400],
    ["GET / HTTP/1.0\r\nhost: x\r\nhost: x\r\n", 400],
    ["GET / HTTP/1.0\r\n", 200],
    ["GET / HTTP/1.1\r\nHost: x\r\nconnection: close\r\n", 200],
  ] as const) {
    // Without an end of the connection this would wait.
    const reply = await exchange(dial(t, port), `${head}\r\n`);
    assert.ok(reply.startsWith(`HTTP/1.1 ${status} `), `${head}: ${reply}`);
    if (status === 400) assert.deepEqual(rawRefusal(reply), [400, 3]);
    assert.deepEqual([counted.pop()?.status, counted.length], [status, 0], "counted once");
  }
});

test("ignores an unknown expectation, and counts the request", async (t) => {
  const { port, counted } = await openTestPort(t, [route({ path: "/" })]);
  const expects = "GET / HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), expects), /^HTTP\/1\.1 200 /);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [200],
  );
});

test("refuses CONNECT", async (t) => {
  const { port, counted } = await openTestPort(t, [route({ path: "/" })]);
  const tunnel = "CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n\x16\x03";
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), tunnel)), [405, 12]);
  const socket = dial(t, port);
  const seen = readAll(socket);
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("it is answered", () => counted.length === 2);
  socket.write(tunnel);
  assert.match(await seen, /^HTTP\/1\.1 200 .*hereHTTP\/1\.1 405 /s);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [405, 200, 405],
  );
  const left = dial(t, port);
  left.write(tunnel);
  left.resetAndDestroy();
  assert.match(
    await exchange(dial(t, port), tunnel),
    /405/,
    "a client that disconnects affects no other",
  );
});

overBothVersions(
  "answers more than 1 000 headers with 431 instead of dropping some",
  async (_, serve) => {
    const { ask } = await serve([route({ path: "/" })], { max_header_bytes: 1_000_000 });
    const many = (count: number) =>
      ask({
        headers: Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "1"])),
      });
    assert.equal((await many(980)).status, 200);
    for (const count of [1_200, 1_900]) {
      const [status, code, message] = refusal(await many(count));
      assert.deepEqual([status, code], [431, 8]);
      assert.match(String(message), /^(more than 1000|too many) headers/);
    }
  },
);

// Node passes headers on in groups of 32 and drops whole groups beyond its own bound.
for (const max_headers of [20, 32, 64, 100, 1_000]) {
  test(`accepts ${max_headers} headers and no more`, async (t) => {
    const { port } = await openTestPort(t, [route({ path: "/" })], { max_headers });
    const head = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    const most = max_headers - 2;
    assert.match(
      await exchange(dial(t, port), `${head}${"x: 1\r\n".repeat(most)}\r\n`),
      /^HTTP\/1\.1 200 /,
    );
    for (const more of [1, 31, 32, 33, 64, 500]) {
      const beyond = `${head}${"x: 1\r\n".repeat(most + more)}\r\n`;
      assert.deepEqual(rawRefusal(await exchange(dial(t, port), beyond)), [431, 8]);
    }
  });
}

overBothVersions(
  "grpc-timeout sets the deadline, and a request that takes longer gets 504",
  async (_, serve) => {
    const left: number[] = [];
    let pending: Call | undefined;
    const { ask: client } = await serve([
      route({
        path: "/ask",
        handle: (_, call) => {
          left.push(call.deadline - performance.now());
          return text("");
        },
      }),
      route({
        path: "/wait",
        handle: (_, call) => {
          pending = call;
          call.signal();
          return new Promise(() => undefined);
        },
      }),
    ]);
    const ask = (path: string, timeout: string) =>
      client({ path, headers: { "grpc-timeout": timeout } });
    await client({ path: "/ask" });
    for (const timeout of ["1H", "2M", "3S", "4000m", "5000000u"]) await ask("/ask", timeout);
    const wanted = [Number.POSITIVE_INFINITY, 3_600_000, 120_000, 3_000, 4_000, 5_000];
    for (const [at, ms] of wanted.entries()) {
      const seen = left[at] ?? Number.NaN;
      assert.ok(seen === ms || (seen <= ms && seen > ms - 900), `${seen} for ${ms}`);
    }
    for (const bad of ["", "1", "m", "1.5S", "-1S", "123456789m", "1s", "1 S"]) {
      assert.deepEqual(refusal(await ask("/ask", bad)).slice(0, 2), [400, 3], bad);
    }
    for (const passed of ["0m", "1n"]) {
      assert.deepEqual(refusal(await ask("/ask", passed)).slice(0, 2), [504, 4]);
    }
    assert.deepEqual(refusal(await ask("/wait", "50m")).slice(0, 2), [504, 4]);
    assert.equal(pending?.signal().aborted, true);
  },
);

overBothVersions(
  "a request that ended normally leaves no alarm and no aborted signal",
  async (_, serve) => {
    const clock = fakeClock();
    const signals: AbortSignal[] = [];
    const alarms: number[] = [];
    const later = (method: "GET" | "POST") =>
      route({
        method,
        path: "/later",
        handle: async (_, call) => {
          signals.push(call.signal());
          alarms.push(clock.alarms);
          await after(1);
          alarms.push(clock.alarms);
          return text("made");
        },
      });
    const { ask, counted } = await serve([later("GET"), later("POST")], {}, clock);
    // Over HTTP/1.1 the POST takes the fast path, the GET goes through Node's server.
    for (const [at, method] of (["POST", "GET"] as const).entries()) {
      const body = method === "POST" ? "{}" : undefined;
      const headers = { "grpc-timeout": "1S", ...(body !== undefined && JSON_TYPE) };
      assert.equal(
        (await ask({ method, path: "/later", headers, ...(body && { body }) })).status,
        200,
      );
      await until("count", () => counted.length === at + 1);
      const [before = 0, waiting = 0] = alarms.splice(0);
      assert.equal(waiting, before + 2, "alarms for the deadline and for write_timeout");
      assert.equal(clock.alarms, before, method);
    }
    clock.advance(2_000);
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, false],
    );
  },
);

overBothVersions("aborts the signal when the caller cancels", async (t, serve, { cancel }) => {
  let pending: Call | undefined;
  const { port, counted } = await serve([
    route({
      path: "/wait",
      handle: (_, call) => {
        pending = call;
        call.signal();
        return new Promise(() => undefined);
      },
    }),
  ]);
  const go = await cancel(t, port, "/wait");
  await until("request", () => pending !== undefined);
  assert.equal(pending?.signal().aborted, false);
  go();
  await until("abort", () => pending?.signal().aborted === true);
  await until("count", () => counted.length === 1);
  assert.equal(counted[0]?.status, 0);
});

overBothVersions(
  "counts a caller that cancels in the middle of its body, without calling the handler",
  async (t, serve, { cancel }) => {
    let calls = 0;
    const handle = () => {
      calls++;
      return text("");
    };
    const { port, counted } = await serve([{ ...post, handle }]);
    const go = await cancel(t, port, "/check", 900);
    await after(20);
    go();
    await until("count", () => counted.length === 1);
    assert.deepEqual([counted[0]?.status, counted[0]?.route, calls], [0, "/check", 0]);
  },
);

overBothVersions(
  "headers set on the call are merged into those of the reply and take precedence",
  async (_, serve) => {
    const { ask } = await serve([
      route({
        path: "/",
        handle: (_, call) => {
          call.reply("x-said", call.header("x-ask") ?? "");
          call.trailer("x-last", call.peer);
          call.reply("content-type", "text/odd");
          return text("here", 201);
        },
      }),
    ]);
    const { status, headers } = await ask({ headers: { "x-ask": "who" } });
    const said = [headers["x-said"], headers["x-last"], headers["content-type"]];
    assert.deepEqual([status, ...said], [201, "who", "127.0.0.1", "text/odd"]);
  },
);

overBothVersions(
  "counts requests with their status, route pattern and fractional duration",
  async (_, serve) => {
    const { ask, counted } = await serve([route({ path: "/a/{name}" })]);
    await ask({ path: "/a/b" });
    await ask({ path: "/nowhere" });
    await until("count", () => counted.length === 2);
    assert.deepEqual(
      counted.map(({ method, status, route }) => [method, status, route]),
      [
        ["GET", 200, "/a/{name}"],
        ["GET", 404, ""],
      ],
    );
    assert.ok(counted.every(({ ms }) => ms > 0 && ms < 5_000));
  },
);

overBothVersions("GET / lists the routes, unless the route table defines it", async (_, serve) => {
  const { ask } = await serve([{ ...post, about: "Asks for a decision" }]);
  const page = (await ask()).body;
  assert.match(page, /POST +\/check +Asks for a decision/);
  assert.match(page, /grpc\.health\.v1\.Health/);
  const own = await serve([route({ path: "/", handle: () => text("mine") })]);
  assert.equal((await own.ask()).body, "mine");
});

// --- one test for each key of server.http ---

test("disable_http_keep_alives closes the connection after each reply", async (t) => {
  const get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
  const off = await openTestPort(t, [], { disable_http_keep_alives: true });
  const reply = await exchange(dial(t, off.port), get);
  assert.match(reply, /\r\nconnection: close\r\n/i);
  const on = await openTestPort(t, []);
  const socket = dial(t, on.port);
  socket.write(get + get);
  let seen = "";
  socket.on("data", (chunk) => {
    seen += chunk;
  });
  await until("two replies", () => seen.split("HTTP/1.1 200").length === 3);
});

/** Sends text and waits until the server closes; returns how long that took and the reply. */
async function closedAfter(
  t: TestContext,
  port: TestPort,
  sent: string,
): Promise<[ms: number, seen: string]> {
  const started = performance.now();
  const seen = await exchange(dial(t, port), sent);
  return [performance.now() - started, seen];
}

test("idle_timeout ends a connection between requests", async (t) => {
  const { port } = await openTestPort(t, [], { idle_timeout: 150 });
  const [ms, seen] = await closedAfter(t, port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.match(seen, /^HTTP\/1\.1 200/);
  assert.ok(ms > 100 && ms < 5_000, `${ms} ms`);
});

overBothVersions(
  "latency_buckets_ms: the meter receives the duration until the reply",
  async (_, serve) => {
    const slow = route({ path: "/slow", handle: () => after(60).then(() => text("")) });
    const { ask, counted } = await serve([slow]);
    await ask({ path: "/slow" });
    await until("count", () => counted.length === 1);
    assert.ok((counted[0]?.ms ?? 0) > 55, `${counted[0]?.ms} ms`);
  },
);

overBothVersions("max_header_bytes: longer headers get 431", async (_, serve) => {
  const { ask } = await serve([], { max_header_bytes: 2_000 });
  const get = (size: number) => ask({ headers: { x: "y".repeat(size) } });
  assert.equal((await get(1_500)).status, 200);
  assert.equal((await get(2_000)).status, 431);
});

test("max_header_bytes: one byte more gets 431", async (t) => {
  const { port } = await openTestPort(t, [], { max_header_bytes: 2_000 });
  const get = (size: number) =>
    `GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: ${"y".repeat(size)}\r\n\r\n`;
  assert.match(await exchange(dial(t, port), get(1_800)), /^HTTP\/1\.1 200/);
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), get(2_000))), [431, 8]);
  const long = `GET /${"y".repeat(2_100)} HTTP/1.1\r\nhost: x\r\n\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), long)), [431, 8]);
});

test("read_header_timeout ends a request whose headers stay incomplete", async (t) => {
  const { port } = await openTestPort(t, [], { read_header_timeout: 150 });
  const [ms, seen] = await closedAfter(t, port, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  assert.ok(ms > 140 && ms < 5_000, `${ms} ms`);
});

test("read_header_timeout is not extended by a sender that drips bytes", async (t) => {
  const { port } = await openTestPort(t, [], { read_header_timeout: 150 });
  const socket = dial(t, port);
  const started = performance.now();
  const drip = setInterval(() => socket.write("x"), 20);
  const seen = await exchange(socket, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  assert.ok(performance.now() - started < 5_000);
});

test("read_timeout ends a body that drips (HTTP/1.1)", async (t) => {
  const { port, counted } = await openTestPort(t, [post], { read_timeout: 200 });
  const socket = dial(t, port);
  const started = performance.now();
  const drip = setInterval(() => socket.write("x"), 20);
  const head = "POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n";
  const seen = await exchange(socket, head);
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  const ms = performance.now() - started;
  assert.ok(ms > 190 && ms < 5_000, `${ms} ms`);
  await until("count", () => counted.length === 1);
});

overBothVersions("read_timeout does not apply to the handler", async (_, serve) => {
  const slow = route({ path: "/slow", handle: () => after(400).then(() => text("late")) });
  const { ask } = await serve([slow], { read_timeout: 100, read_header_timeout: 100 });
  assert.equal((await ask({ path: "/slow" })).body, "late");
});

overBothVersions(
  "write_timeout answers 503 for a handler that takes too long",
  async (_, serve) => {
    let pending: Call | undefined;
    const never: Route["handle"] = (_, call) => {
      pending = call;
      call.signal();
      return new Promise(() => undefined);
    };
    const { ask } = await serve(
      [
        route({ path: "/never", handle: never }),
        route({
          path: "/stream",
          stream: true,
          handle: () => after(300).then(() => text("whole")),
        }),
      ],
      { write_timeout: 150 },
    );
    assert.deepEqual(refusal(await ask({ path: "/never" })).slice(0, 2), [503, 14]);
    assert.equal(pending?.signal().aborted, true, "the handler's signal is aborted");
    assert.equal((await ask({ path: "/stream" })).body, "whole");
  },
);

test("read_timeout ends a body that drips (HTTP/2)", async (t) => {
  const { port, counted } = await openTestPort(t, [post], { read_timeout: 200 });
  const session = connect(`http://${port.address}`);
  t.after(() => session.destroy());
  const started = performance.now();
  const stream = session.request({ ":method": "POST", ":path": "/check" });
  stream.on("error", () => undefined);
  const drip = setInterval(() => stream.writable && stream.write("x"), 20);
  const status = await new Promise((resolve) => {
    stream.on("response", (headers) => resolve(headers[":status"]));
  });
  clearInterval(drip);
  assert.equal(status, 408);
  const ms = performance.now() - started;
  assert.ok(ms > 190 && ms < 5_000, `${ms} ms`);
  assert.equal(counted.length, 1);
});

test("write_timeout ends a connection whose client does not read (HTTP/1.1)", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const { port, counted } = await openTestPort(
    t,
    [
      route({ path: "/now", handle: () => big }),
      route({ path: "/later", handle: async () => big }),
    ],
    { write_timeout: 150 },
  );
  for (const [at, path] of ["/now", "/later"].entries()) {
    const socket = dial(t, port);
    socket.pause();
    const started = performance.now();
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await until("end", () => counted.length === at + 1);
    assert.ok(performance.now() - started < 5_000);
  }
});

overBothVersions("timeouts of 0 mean no limit", async (_, serve) => {
  const none = { read_header_timeout: 0, read_timeout: 0, write_timeout: 0, idle_timeout: 0 };
  const slow = route({ path: "/", handle: () => after(50).then(() => text("ok")) });
  const { ask } = await serve([slow], { ...none, max_header_bytes: 0 });
  assert.equal((await ask()).body, "ok");
});

test("write_timeout resets a stream whose client does not read (HTTP/2)", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const routes = [
    route({ path: "/now", handle: () => big }),
    route({ path: "/later", handle: async () => big }),
  ];
  const { port, counted } = await openTestPort(t, routes, { write_timeout: 150 });
  const session = connect(`http://${port.address}`);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  for (const [at, path] of ["/now", "/later"].entries()) {
    const started = performance.now();
    const stream = session.request({ ":path": path });
    stream.on("error", () => undefined);
    stream.pause();
    await until("end", () => counted.length === at + 1);
    assert.ok(performance.now() - started < 5_000);
  }
});

test("a reply of many flow-control windows arrives complete (HTTP/2)", async (t) => {
  const body = Buffer.from("0123456789abcdefg".repeat(700_000));
  const big = route({ path: "/", handle: () => ({ status: 200, headers: {}, body }) });
  const { ask } = await openTestPort(t, [big], {}, VERSIONS[1]);
  const replies = await Promise.all([ask(), ask(), ask()]);
  for (const reply of replies) assert.ok(reply.body === body.toString());
});
