import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { request } from "node:http";
import { connect, constants } from "node:http2";
import { type TestContext, test } from "node:test";
import { setTimeout as after } from "node:timers/promises";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { MAX_FIELDS, MAX_HELD_IN_ALL } from "#serve/h2/limits.ts";
import type { Call, HttpReply, Route } from "#serve/handler.ts";
import { fakeClock } from "../kit/clock.ts";
import { type Answer, http1, http2 } from "../kit/http-client.ts";
import {
  dial,
  exchange,
  memoryMeter,
  type Overrides,
  readAll,
  realClock,
  type TestPort,
  testPort,
  until,
} from "../kit/port.ts";

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
 * How each version is asked, how a caller leaves in the middle, and how many bytes are many: Node's client of HTTP/2
 * loses a reply that comes together with the wish that it stops sending (RFC 9113 §8.1), so it is to have sent all.
 */
const VERSIONS = [
  { name: "HTTP/1.1", client: http1, leave: leaveHttp1, aLot: 8_000_000 },
  { name: "HTTP/2", client: http2, leave: leaveHttp2, aLot: 200_000 },
] as const;

type Version = (typeof VERSIONS)[number];

async function serving(
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

/** Makes a port for a test, with a client of the version under test. */
type Serve = (
  routes: readonly Route[],
  http?: Overrides["http"],
  clock?: Clock,
) => ReturnType<typeof serving>;

/** The same promise over HTTP/1.1 and HTTP/2. */
function both(
  title: string,
  run: (t: TestContext, serve: Serve, version: Version) => Promise<void>,
): void {
  for (const version of VERSIONS) {
    test(`${title} (${version.name})`, (t) =>
      run(t, (routes, http, clock) => serving(t, routes, http, version, clock), version));
  }
}

/** Begins a request, one that announces a body beginning it, and gives back how to leave before its reply. */
async function leaveHttp1(t: TestContext, port: TestPort, path: string, length = 0) {
  const socket = dial(t, port);
  socket.write(
    length === 0
      ? `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
      : `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\nx`,
  );
  return () => void socket.destroy();
}

async function leaveHttp2(t: TestContext, port: TestPort, path: string, length = 0) {
  const session = connect(`http://${port.address}`);
  t.after(() => session.destroy());
  const stream = session.request({ ":path": path, ":method": length === 0 ? "GET" : "POST" });
  if (length > 0) stream.write("x");
  stream.on("error", () => undefined);
  // Node's client would end the body before it takes the request back.
  return () => (length > 0 ? session.destroy() : stream.close(constants.NGHTTP2_CANCEL));
}

const JSON_TYPE = { "content-type": "application/json" };

function refusal(reply: Answer): [status: number, code: number, message: string] {
  assert.equal(reply.headers["content-type"], "application/json");
  const body = JSON.parse(reply.body) as { code: number; message: string; details: unknown };
  assert.deepEqual(Object.keys(body), ["code", "message", "details"]);
  assert.deepEqual(body.details, []);
  return [reply.status, body.code, body.message];
}

/** As `refusal`, from raw text. */
function rawRefusal(reply: string): [status: number, code: number] {
  const [, status, body = ""] = /^HTTP\/1\.1 (\d{3}) .*?\r\n\r\n(.*)$/s.exec(reply) ?? [];
  assert.ok(status !== undefined, `no reply but: ${reply}`);
  return [Number(status), (JSON.parse(body) as { code: number }).code];
}

both("paths are found by their letters, segments and rests", async (_, serve) => {
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
  for (const [path, body] of Object.entries(found)) assert.equal((await ask({ path })).body, body);
  for (const path of ["/a", "/a//c", "/a/b/c/", "/A/b/c", "/a/b/c/d", "/p/", "/a%2Fb%2Fc", "//s"]) {
    assert.deepEqual(refusal(await ask({ path })), [404, 5, "Not Found"], path);
  }
  assert.deepEqual(refusal(await ask({ path: "/a/%ff/c" })).slice(0, 2), [400, 3]);
});

test("a table with a route twice, or with a rest in the middle, is refused", async (t) => {
  const twice = [route({ path: "/a" }), route({ path: "/a" })];
  await assert.rejects(testPort(t, { routes: twice }), /twice/);
  await assert.rejects(testPort(t, { routes: [route({ path: "/{a...}/b" })] }), /last/);
});

both("another method is 405 and says which are allowed; HEAD goes with GET", async (_, serve) => {
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
});

test("a proxy's absolute target is understood", async (t) => {
  const { port } = await serving(t, [
    route({ path: "/here", handle: ({ query }) => text(`${query}`) }),
  ]);
  const reply = await exchange(
    dial(t, port),
    "GET http://any.host:80/here?x=1 HTTP/1.1\r\nhost: any.host\r\nconnection: close\r\n\r\n",
  );
  assert.match(reply, /^HTTP\/1\.1 200 .*\r\n\r\nx=1$/s);
  const asterisk = "OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), asterisk), /^HTTP\/1\.1 404 /, "it is no path");
});

both("json routes take application/json or nothing said, uncompressed", async (_, serve) => {
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
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]) {
    const [status, code] = refusal(await ask({ "content-type": type }));
    assert.deepEqual([status, code], [415, 3], type);
  }
  const gzip = refusal(await ask({ ...JSON_TYPE, "content-encoding": "gzip" }));
  assert.deepEqual(gzip.slice(0, 2), [415, 3]);
});

both(
  "a body beyond the bound is 413, announced or not, and the answer arrives",
  async (_, serve, { aLot }) => {
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
      assert.deepEqual(refusal(await ask(aLot, announced)).slice(0, 2), [413, 8]);
    }
  },
);

test("a body in many chunks beyond the bound is 413", async (t) => {
  const { port } = await serving(t, [post]);
  const chunked = `POST /check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${`3e8\r\n${" ".repeat(1_000)}\r\n`.repeat(2_000)}0\r\n\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), chunked)), [413, 8]);
});

test("who sends on after a refusal is let to read it", async (t) => {
  const { port } = await serving(t, [post]);
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

test("rubbish behind a request in hand neither takes its reply nor runs into it", async (t) => {
  let asked = false;
  const slow = route({
    path: "/slow",
    handle: () => {
      asked = true;
      return after(100).then(() => text("late"));
    },
  });
  const { port } = await serving(t, [slow]);
  const socket = dial(t, port);
  socket.write("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("request", () => asked);
  const said = await exchange(socket, "RUBBISH\r\n\r\n");
  const statuses = [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual(statuses, ["200", "400"]);
  assert.match(said, /\r\n\r\nlateHTTP/, "the reply came whole, the refusal after it");
});

test("what was decided is told, though rubbish came in the same piece", async (t) => {
  const { port } = await serving(t, [post]);
  const ask = (body: string) =>
    `POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const said = await exchange(dial(t, port), `${ask("1")}${ask("22")}${ask("333")}RUBBISH\r\n\r\n`);
  const told = [...said.matchAll(/HTTP\/1\.1 (\d+).*?\r\n\r\n(\d?)/gs)].map(([, ...all]) =>
    all.join(),
  );
  assert.deepEqual(told, ["200,1", "200,2", "200,3", "400,"]);
});

test("nothing follows a reply that says it is the last", async (t) => {
  const { port, counted } = await serving(t, [post, route({ path: "/here" })]);
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
    // Nor is a refusal counted that nobody was sent.
    await until("the reply is counted", () => counted.length > 0);
    assert.deepEqual(
      counted.splice(0).map((one) => String(one.status)),
      [status],
      sent,
    );
  }
});

for (const { name } of VERSIONS) {
  test(`costly requests take turns, too many are refused, others wait for one (${name})`, async (t) => {
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
    const { port, url, counted } = await serving(t, [costly, quick]);
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
    assert.deepEqual([count(200), count(503)], [102, many - 100]);
    assert.ok(before > 0 && before < 50, `after ${before} of ${begun}`);
  });
}

test("replies that nobody reads have a bound in all, and small ones pass", async (t) => {
  const bytes = 8 * 1024 * 1024;
  const large = route({ path: "/large", handle: () => text("x".repeat(bytes)) });
  const { port, counted } = await serving(t, [large, route({ path: "/small" })], {
    write_timeout: 60_000,
  });
  const deaf = Array.from({ length: 4 }, () => dial(t, port).pause());
  for (const socket of deaf) socket.write("GET /large HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5));
  await after(200);
  const other = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), `GET /large ${other}`), /^HTTP\/1\.1 503 /);
  assert.match(await exchange(dial(t, port), `GET /small ${other}`), /^HTTP\/1\.1 200 /);
  for (const socket of deaf) socket.destroy();
  await until("all ended", () => counted.length === 22);
  const count = (status: number) => counted.filter((each) => each.status === status).length;
  assert.deepEqual([count(200), count(503)], [MAX_HELD_IN_ALL / bytes + 1, 13]);
  assert.match(await exchange(dial(t, port), `GET /large ${other}`), /^HTTP\/1\.1 200 /);
});

both("the default bound is 1 MiB, and what comes is what was sent", async (_, serve) => {
  const { maxBody: __, ...unbounded } = post;
  const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  const { ask: client } = await serve([{ ...unbounded, handle: ({ body }) => text(digest(body)) }]);
  const ask = (body: string) => client({ path: "/check", method: "POST", body });
  const whole = "0123456789abcdefg".repeat(62_000).slice(0, 1_048_576);
  assert.equal((await ask(whole)).body, digest(Buffer.from(whole)));
  assert.equal((await ask(`${whole}x`)).status, 413);
});

test("who asks before sending is told yes, or is refused unsent", async (t) => {
  const { port } = await serving(t, [post]);
  const ask = (size: number) =>
    new Promise<string>((resolve, reject) => {
      const headers = { ...JSON_TYPE, expect: "100-continue", "content-length": size };
      const { host } = port;
      const asked = request({
        host,
        port: port.port,
        path: "/check",
        method: "POST",
        headers,
        agent: false,
      });
      let told = "";
      asked.on("continue", () => {
        told = "continue ";
        asked.end(Buffer.alloc(size));
      });
      asked.on("response", (reply) => {
        resolve(`${told}${reply.statusCode}`);
        asked.destroy();
      });
      asked.on("error", reject);
      asked.flushHeaders();
    });
  assert.equal(await ask(10), "continue 200");
  assert.equal(await ask(1_001), "413");
});

both("errors repeat no input, and what is no Fault tells nothing", async (_, serve) => {
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
});

test("malformed requests are 400, and counted though their methods are not known", async (t) => {
  const { port, counted } = await serving(t, [post]);
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
    "once, as the request that it was",
  );
});

test("a request names one host; by HTTP/1.0 it need not", async (t) => {
  const { port, counted } = await serving(t, [route({ path: "/" })]);
  for (const [head, status] of [
    ["GET / HTTP/1.1\r\n", 400],
    ["GET / HTTP/1.1\r\nhost: x\r\nHOST: y\r\n", 400],
    ["GET / HTTP/1.0\r\nhost: x\r\nhost: x\r\n", 400],
    ["GET / HTTP/1.0\r\n", 200],
    ["GET / HTTP/1.1\r\nHost: x\r\nconnection: close\r\n", 200],
  ] as const) {
    // Without its end the connection would be kept, and this would wait.
    const reply = await exchange(dial(t, port), `${head}\r\n`);
    assert.ok(reply.startsWith(`HTTP/1.1 ${status} `), `${head}: ${reply}`);
    if (status === 400) assert.deepEqual(rawRefusal(reply), [400, 3]);
    assert.deepEqual([counted.pop()?.status, counted.length], [status, 0], "counted once");
  }
});

test("what else a request expects is no reason to refuse it, and it is counted", async (t) => {
  const { port, counted } = await serving(t, [route({ path: "/" })]);
  const expects = "GET / HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), expects), /^HTTP\/1\.1 200 /);
  assert.deepEqual(
    counted.map(({ status }) => status),
    [200],
  );
});

test("a tunnel is refused", async (t) => {
  const { port, counted } = await serving(t, [route({ path: "/" })]);
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
  assert.match(await exchange(dial(t, port), tunnel), /405/, "who leaves hurts nobody");
});

both("more than 1 000 headers are 431, not dropped", async (_, serve) => {
  const { ask } = await serve([route({ path: "/" })], { max_header_bytes: 1_000_000 });
  const many = (count: number) =>
    ask({
      headers: Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, "1"])),
    });
  assert.equal((await many(980)).status, 200);
  for (const count of [1_200, 1_900]) {
    assert.deepEqual(refusal(await many(count)).slice(0, 2), [431, 8]);
  }
});

test("1 000 headers are taken, and not one more", async (t) => {
  const { port } = await serving(t, [route({ path: "/" })]);
  const head = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
  const most = MAX_FIELDS - 2;
  assert.match(
    await exchange(dial(t, port), `${head}${"x: 1\r\n".repeat(most)}\r\n`),
    /^HTTP\/1\.1 200 /,
  );
  const beyond = `${head}${"x: 1\r\n".repeat(most + 1)}\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), beyond)), [431, 8]);
});

both("grpc-timeout sets the deadline, and ends what takes longer with 504", async (_, serve) => {
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
});

both("a request that ended well leaves no alarm and no aborted signal", async (_, serve) => {
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
  // Over HTTP/1.1 POST goes the short way, GET over Node's server.
  for (const [at, method] of (["POST", "GET"] as const).entries()) {
    const body = method === "POST" ? "{}" : undefined;
    const headers = { "grpc-timeout": "1S", ...(body !== undefined && JSON_TYPE) };
    assert.equal(
      (await ask({ method, path: "/later", headers, ...(body && { body }) })).status,
      200,
    );
    await until("count", () => counted.length === at + 1);
    const [before = 0, waiting = 0] = alarms.splice(0);
    assert.equal(waiting, before + 2, "its deadline and write_timeout");
    assert.equal(clock.alarms, before, method);
  }
  clock.advance(2_000);
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [false, false],
  );
});

both("a caller that leaves aborts the signal", async (t, serve, { leave }) => {
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
  const go = await leave(t, port, "/wait");
  await until("request", () => pending !== undefined);
  assert.equal(pending?.signal().aborted, false);
  go();
  await until("abort", () => pending?.signal().aborted === true);
  await until("count", () => counted.length === 1);
  assert.equal(counted[0]?.status, 0);
});

both(
  "a caller that leaves in the middle of its body is counted, and asks nobody",
  async (t, serve, { leave }) => {
    let asked = 0;
    const handle = () => {
      asked++;
      return text("");
    };
    const { port, counted } = await serve([{ ...post, handle }]);
    const go = await leave(t, port, "/check", 900);
    await after(20);
    go();
    await until("count", () => counted.length === 1);
    assert.deepEqual([counted[0]?.status, counted[0]?.route, asked], [0, "/check", 0]);
  },
);

both("reply headers of the call join those of the reply, and win", async (_, serve) => {
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
});

both(
  "requests are counted with their real status, pattern and fractional time",
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

both("GET / says what answers here, unless the table has its own", async (_, serve) => {
  const { ask } = await serve([{ ...post, about: "Asks for a decision" }]);
  const page = (await ask()).body;
  assert.match(page, /POST +\/check +Asks for a decision/);
  assert.match(page, /grpc\.health\.v1\.Health/);
  const own = await serve([route({ path: "/", handle: () => text("mine") })]);
  assert.equal((await own.ask()).body, "mine");
});

// --- one test per key of server.http ---

test("disable_http_keep_alives closes after each reply", async (t) => {
  const get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
  const off = await serving(t, [], { disable_http_keep_alives: true });
  const reply = await exchange(dial(t, off.port), get);
  assert.match(reply, /\r\nconnection: close\r\n/i);
  const on = await serving(t, []);
  const socket = dial(t, on.port);
  socket.write(get + get);
  let seen = "";
  socket.on("data", (chunk) => {
    seen += chunk;
  });
  await until("two replies", () => seen.split("HTTP/1.1 200").length === 3);
});

/** How long until the other side closes. */
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
  const { port } = await serving(t, [], { idle_timeout: 150 });
  const [ms, seen] = await closedAfter(t, port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.match(seen, /^HTTP\/1\.1 200/);
  assert.ok(ms > 100 && ms < 5_000, `${ms} ms`);
});

both(
  "latency_buckets_ms: the time that a meter sorts into them is that of the reply",
  async (_, serve) => {
    const slow = route({ path: "/slow", handle: () => after(60).then(() => text("")) });
    const { ask, counted } = await serve([slow]);
    await ask({ path: "/slow" });
    await until("count", () => counted.length === 1);
    assert.ok((counted[0]?.ms ?? 0) > 55, `${counted[0]?.ms} ms`);
  },
);

both("max_header_bytes: more is 431", async (_, serve) => {
  const { ask } = await serve([], { max_header_bytes: 2_000 });
  const get = (size: number) => ask({ headers: { x: "y".repeat(size) } });
  assert.equal((await get(1_500)).status, 200);
  assert.equal((await get(2_000)).status, 431);
});

test("max_header_bytes: one more is 431", async (t) => {
  const { port } = await serving(t, [], { max_header_bytes: 2_000 });
  const get = (size: number) =>
    `GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: ${"y".repeat(size)}\r\n\r\n`;
  assert.match(await exchange(dial(t, port), get(1_800)), /^HTTP\/1\.1 200/);
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), get(2_000))), [431, 8]);
  const long = `GET /${"y".repeat(2_100)} HTTP/1.1\r\nhost: x\r\n\r\n`;
  assert.deepEqual(rawRefusal(await exchange(dial(t, port), long)), [431, 8]);
});

test("read_header_timeout ends headers that do not come to an end", async (t) => {
  const { port } = await serving(t, [], { read_header_timeout: 150 });
  const [ms, seen] = await closedAfter(t, port, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  assert.ok(ms > 140 && ms < 5_000, `${ms} ms`);
});

test("read_header_timeout is not put off by a sender that drips", async (t) => {
  const { port } = await serving(t, [], { read_header_timeout: 150 });
  const socket = dial(t, port);
  const started = performance.now();
  const drip = setInterval(() => socket.write("x"), 20);
  const seen = await exchange(socket, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ");
  clearInterval(drip);
  assert.deepEqual(rawRefusal(seen), [408, 4]);
  assert.ok(performance.now() - started < 5_000);
});

test("read_timeout ends a body that drips", async (t) => {
  const { port, counted } = await serving(t, [post], { read_timeout: 200 });
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

both("read_timeout does not end a handler that takes longer", async (_, serve) => {
  const slow = route({ path: "/slow", handle: () => after(400).then(() => text("late")) });
  const { ask } = await serve([slow], { read_timeout: 100, read_header_timeout: 100 });
  assert.equal((await ask({ path: "/slow" })).body, "late");
});

both("write_timeout ends a handler that does not answer with 503", async (_, serve) => {
  let pending: Call | undefined;
  const never: Route["handle"] = (_, call) => {
    pending = call;
    call.signal();
    return new Promise(() => undefined);
  };
  const { ask } = await serve(
    [
      route({ path: "/never", handle: never }),
      route({ path: "/stream", stream: true, handle: () => after(300).then(() => text("whole")) }),
    ],
    { write_timeout: 150 },
  );
  assert.deepEqual(refusal(await ask({ path: "/never" })).slice(0, 2), [503, 14]);
  assert.equal(pending?.signal().aborted, true, "nobody needs its work");
  assert.equal((await ask({ path: "/stream" })).body, "whole");
});

test("read_timeout ends a body that drips (HTTP/2)", async (t) => {
  const { port, counted } = await serving(t, [post], { read_timeout: 200 });
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

test("write_timeout ends a reader that does not read", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const { port, counted } = await serving(
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

both("limits of 0 are none", async (_, serve) => {
  const none = { read_header_timeout: 0, read_timeout: 0, write_timeout: 0, idle_timeout: 0 };
  const slow = route({ path: "/", handle: () => after(50).then(() => text("ok")) });
  const { ask } = await serve([slow], { ...none, max_header_bytes: 0 });
  assert.equal((await ask()).body, "ok");
});

test("write_timeout ends a reader that does not read (HTTP/2)", async (t) => {
  const big = { status: 200, headers: {}, body: Buffer.alloc(32 * 1024 * 1024) };
  const routes = [
    route({ path: "/now", handle: () => big }),
    route({ path: "/later", handle: async () => big }),
  ];
  const { port, counted } = await serving(t, routes, { write_timeout: 150 });
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

test("a reply of many windows arrives whole (HTTP/2)", async (t) => {
  const body = Buffer.from("0123456789abcdefg".repeat(700_000));
  const big = route({ path: "/", handle: () => ({ status: 200, headers: {}, body }) });
  const { ask } = await serving(t, [big], {}, VERSIONS[1]);
  const replies = await Promise.all([ask(), ask(), ask()]);
  for (const reply of replies) assert.ok(reply.body === body.toString());
});
