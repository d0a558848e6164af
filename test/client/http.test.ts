// The HTTP client against real sockets: what every setting does, which route a call takes, and how each failure
// is reported.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { type Code, Fault } from "#base/fault.ts";
import { HttpClient } from "#client/http.ts";
import { fakeClock } from "../kit/clock.ts";
import { child } from "../kit/servers/child.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { until } from "../kit/until.ts";
import {
  type Answering,
  caller,
  clientSettings,
  type FakeServer,
  fakeProxy,
  fakeServer,
  NO_PROXY,
} from "../prometheus/kit.ts";

const hello: Answering = (_, reply) => reply.end("hello");
const silence: Answering = () => undefined;

function fails(work: Promise<unknown>, code: Code, words: RegExp): Promise<void> {
  return assert.rejects(work, (thrown) => {
    assert.ok(thrown instanceof Fault, String(thrown));
    assert.deepEqual([thrown.code, words.test(thrown.message)], [code, true], thrown.message);
    return true;
  });
}

test("a call resolves with status, headers and body, whatever the status", async (t) => {
  const server = await fakeServer(t, (heard, reply) => {
    reply.writeHead(418, { "X-Kind": "teapot" });
    reply.end(`${heard.method} ${heard.url} ${heard.body}`);
  });
  const http = caller(t);
  const headers = { "content-type": "text/plain" };
  const url = `${server.url}/a/b?c=d`;
  const reply = await http.call({ method: "POST", url, headers, body: "hi" });
  assert.equal(reply.status, 418);
  assert.equal(reply.headers["x-kind"], "teapot");
  assert.equal(reply.body.toString(), "POST /a/b?c=d hi");
  assert.equal(server.heard[0]?.headers["content-type"], "text/plain");
});

test("credentials in the URL are sent as basic authentication and appear in no message", async (t) => {
  const server = await fakeServer(t, hello);
  const http = caller(t);
  const url = (port: number) => `http://me:se%3Acret@127.0.0.1:${port}/`;
  await http.call({ method: "GET", url: url(server.port) });
  const wanted = `Basic ${Buffer.from("me:se:cret").toString("base64")}`;
  assert.equal(server.heard[0]?.headers.authorization, wanted);
  const refused = http.call({ method: "GET", url: url(await deadPort()) });
  await fails(refused, "UNAVAILABLE", /^http:\/\/127\.0\.0\.1:\d+: connection refused$/);
});

test("a percent sign that encodes nothing is part of the password, for servers and for proxies", async (t) => {
  const server = await fakeServer(t, hello);
  const proxy = await fakeProxy(t);
  for (const [written, meant] of [
    ["me:100%sure", Buffer.from("me:100%sure")],
    ["100%:%", Buffer.from("100%:%")],
    ["me:%2525%zz%4", Buffer.from("me:%25%zz%4")],
    ["m%C3%BC:ü%s", Buffer.from("mü:ü%s")],
    // Bytes that are not UTF-8 are sent unchanged.
    ["me:%e9", Buffer.from("me:\xe9", "latin1")],
  ] as const) {
    const basic = `Basic ${meant.toString("base64")}`;
    await caller(t).call({ method: "GET", url: `http://${written}@127.0.0.1:${server.port}/` });
    assert.equal(server.heard.at(-1)?.headers.authorization, basic, written);
    const uri = `http://${written}@127.0.0.1:${proxy.port}`;
    const http = caller(t, { use_proxy: true }, { proxy: { ...NO_PROXY, http: uri } });
    await http.call({ method: "GET", url: "http://metrics.example/" });
    assert.equal(proxy.heard.at(-1)?.headers["proxy-authorization"], basic, written);
  }
});

async function deadPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

test("only http and https URLs are accepted", async (t) => {
  const http = caller(t);
  for (const url of ["ftp://a/", "nonsense", ""]) {
    await fails(http.call({ method: "GET", url }), "INVALID_ARGUMENT", /http:\/\/ or https/);
  }
});

test("timeout: the shorter of the setting and the call's own applies", async (t) => {
  const server = await fakeServer(t, silence);
  for (const [timeout, timeoutMs, wanted] of [
    [2_000, 5_000, 2_000],
    [9_000, 5_000, 5_000],
    [0, 3_000, 3_000],
    [4_000, undefined, 4_000],
  ] as const) {
    const clock = fakeClock();
    const http = caller(t, { timeout }, { clock });
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    const call = http.call({ method: "GET", url: server.url, ...limit });
    const seen = server.heard.length;
    await until("the call arrives", () => server.heard.length > seen);
    clock.advance(wanted - 1);
    assert.equal(clock.alarms, 1);
    clock.advance(1);
    await fails(call, "DEADLINE_EXCEEDED", new RegExp(`no reply within ${wanted} ms`));
    assert.equal(clock.alarms, 0);
  }
  await until("connections of late calls are closed", () => server.open === 0);
});

test("timeout covers a body that never ends, and 0 sets no alarm", async (t) => {
  const server = await fakeServer(t, (_, reply) => void reply.write("half"));
  const clock = fakeClock();
  const http = caller(t, { timeout: 1_000 }, { clock });
  const call = http.call({ method: "GET", url: server.url });
  await until("the call arrives", () => server.heard.length === 1);
  clock.advance(1_000);
  await fails(call, "DEADLINE_EXCEEDED", /no reply within 1000 ms/);
  const idle = fakeClock();
  const endless = caller(t, { timeout: 0 }, { clock: idle });
  const leave = new AbortController();
  const given = endless.call({ method: "GET", url: server.url, signal: leave.signal });
  await until("the call arrives", () => server.heard.length === 2);
  assert.equal(idle.alarms, 0);
  leave.abort();
  await fails(given, "CANCELLED", /call was cancelled/);
});

test("a signal cancels a call immediately, even before it began, and its listener is removed", async (t) => {
  const server = await fakeServer(t, ({ url }, reply) => {
    if (url === "/fine") reply.setHeader("connection", "close").end();
  });
  const http = caller(t);
  const leave = new AbortController();
  const call = http.call({ method: "GET", url: server.url, signal: leave.signal });
  await until("the call arrives", () => server.heard.length === 1);
  leave.abort();
  await fails(call, "CANCELLED", /call was cancelled/);
  const calm = new AbortController();
  const given = http.call({ method: "GET", url: `${server.url}/fine`, signal: calm.signal });
  assert.equal(getEventListeners(calm.signal, "abort").length, 1);
  await given;
  assert.equal(getEventListeners(calm.signal, "abort").length, 0);
  await until("its connection is closed", () => server.open === 0);
  const late = http.call({ method: "GET", url: server.url, signal: leave.signal });
  await fails(late, "CANCELLED", /call was cancelled/);
  assert.equal(server.heard.length, 2);
});

test("response_header_timeout bounds the wait for the headers, not for the body", async (t) => {
  let finish = () => {};
  const slow = await fakeServer(t, (heard, reply) => {
    if (heard.url === "/silent") return;
    reply.write("first");
    finish = () => void reply.end(" last");
  });
  const http = caller(t, { response_header_timeout: 500 });
  const whole = http.call({ method: "GET", url: `${slow.url}/` });
  await until("the headers", () => slow.heard.length === 1);
  // It begins later, so its timeout ends later, too.
  const silent = http.call({ method: "GET", url: `${slow.url}/silent` });
  await fails(silent, "DEADLINE_EXCEEDED", /response headers timed out/);
  finish();
  assert.equal((await whole).body.toString(), "first last");
});

test("tls_handshake_timeout: a server that never completes the handshake", async (t) => {
  const mute = await rawServer(t, () => undefined);
  const http = caller(t, { tls_handshake_timeout: 50 });
  const call = http.call({ method: "GET", url: `https://127.0.0.1:${mute}/` });
  await fails(call, "DEADLINE_EXCEEDED", /connection timed out/);
});

/** A server that hears a connection's first bytes. */
async function rawServer(t: TestContext, take: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => take(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

test("responses that are cut off or are not HTTP", async (t) => {
  const half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
  const http = caller(t);
  for (const [text, words] of [
    [half, /closed before the response was complete/],
    ["HTTP/1.1 200 OK\r\n", /closed before the response was complete/],
    ["", /closed before the response was complete/],
    ["SSH-2.0-OpenSSH\r\n\r\n", /not HTTP/],
  ] as const) {
    const port = await rawServer(t, (socket) => socket.end(text));
    await fails(
      http.call({ method: "GET", url: `http://127.0.0.1:${port}/` }),
      "UNAVAILABLE",
      words,
    );
  }
  const reset = await rawServer(t, (socket) => {
    socket.write(half, () => socket.resetAndDestroy());
  });
  const call = http.call({ method: "GET", url: `http://127.0.0.1:${reset}/` });
  await fails(call, "UNAVAILABLE", /connection (reset|closed before)/);
});

test("the port of a URL without one is that of its scheme", async (t) => {
  const http = caller(t);
  for (const [scheme, port] of [
    ["https", 443],
    ["http", 80],
  ] as const) {
    // Nothing listens at this address of loopback.
    await assert.rejects(http.call({ method: "GET", url: `${scheme}://127.77.0.1` }), (thrown) => {
      assert.ok(thrown instanceof Fault);
      assert.match(String(thrown.cause), new RegExp(`127\\.77\\.0\\.1:${port}\\b`));
      return true;
    });
  }
});

test("host names that do not exist", async (t) => {
  const call = caller(t).call({ method: "GET", url: "http://nobody.invalid/" });
  await fails(call, "UNAVAILABLE", /^http:\/\/nobody\.invalid: (no such host|the DNS server)/);
});

test("responses are bounded: as received, decompressed, and in their headers", async (t) => {
  const server = await fakeServer(t, ({ url }, reply) => {
    if (url === "/plain") reply.end("x".repeat(1_001));
    else if (url === "/endless") {
      const more = () => {
        while (!reply.destroyed && reply.write("x".repeat(500)));
      };
      reply.on("drain", more);
      more();
    } else if (url === "/packed") {
      reply.setHeader("content-encoding", "gzip");
      reply.end(gzipSync("x".repeat(100_000)));
    } else {
      reply.setHeader("x-long", "x".repeat(3_000));
      reply.end();
    }
  });
  const http = caller(t, { max_response_header_bytes: 2_000 }, { maxBodyBytes: 1_000 });
  const get = (path: string) => http.call({ method: "GET", url: server.url + path });
  for (const path of ["/plain", "/endless", "/packed"]) {
    await fails(get(path), "RESOURCE_EXHAUSTED", /larger than 1000 bytes/);
  }
  await fails(get("/headers"), "RESOURCE_EXHAUSTED", /response headers are too large/);
  await until("their connections are closed", () => server.open <= 1);
});

test("disable_compression: gzip is requested and decompressed, or not requested", async (t) => {
  const server = await fakeServer(t, ({ headers, url }, reply) => {
    const asked = headers["accept-encoding"] === "gzip";
    if (!asked) {
      reply.end("plain");
      return;
    }
    reply.setHeader("content-encoding", url === "/odd" ? "br" : "GZIP");
    reply.end(url === "/broken" ? "no gzip" : gzipSync("packed"));
  });
  const get = async (over: { disable_compression: boolean }, path = "/") =>
    (await caller(t, over).call({ method: "GET", url: server.url + path })).body.toString();
  assert.equal(await get({ disable_compression: false }), "packed");
  assert.equal(await get({ disable_compression: true }), "plain");
  await fails(get({ disable_compression: false }, "/odd"), "UNAVAILABLE", /not requested/);
  await fails(get({ disable_compression: false }, "/broken"), "UNAVAILABLE", /not valid gzip/);
});

async function wave(http: HttpClient, server: FakeServer, calls: number): Promise<void> {
  const each = () => http.call({ method: "GET", url: server.url });
  await Promise.all(Array.from({ length: calls }, each));
}

test("connections: kept alive, closed after each call, or limited in number", async (t) => {
  const late: Answering = (_, reply) => void setTimeout(() => reply.end("x"), 20);
  const kept = await fakeServer(t, late);
  const keeper = caller(t);
  for (let round = 0; round < 3; round++) await wave(keeper, kept, 1);
  assert.equal(kept.made, 1);

  const once = await fakeServer(t, late);
  const single = caller(t, { disable_keep_alives: true });
  for (let round = 0; round < 3; round++) await wave(single, once, 1);
  assert.equal(once.made, 3);
  assert.equal(once.heard[0]?.headers.connection, "close");

  const few = await fakeServer(t, late);
  await wave(caller(t, { max_conns_per_host: 2 }), few, 6);
  assert.equal(few.made, 2);
});

test("idle connections: limited per host, in total, and in time", async (t) => {
  const late: Answering = (_, reply) => void setTimeout(() => reply.end("x"), 20);
  let calls = 0;
  // Some calls end while others are still in progress.
  const one = await fakeServer(t, (_, reply) => void setTimeout(() => reply.end("x"), ++calls * 5));
  const other = await fakeServer(t, late);
  await wave(caller(t, { max_idle_connections_per_host: 2 }), one, 6);
  await until("two are left", () => one.made === 6 && one.open === 2);

  const all = caller(t, { max_idle_connections: 3, max_idle_connections_per_host: 0 });
  await Promise.all([wave(all, one, 3), wave(all, other, 3)]);
  await until("three are left", () => one.open - 2 + other.open === 3);
  await wave(all, one, 4);
  await until("still three", () => one.open - 2 + other.open === 3);

  const brief = await fakeServer(t, hello);
  await wave(caller(t, { idle_connection_timeout: 30 }), brief, 1);
  await until("it is closed", () => brief.made === 1 && brief.open === 0);
});

test("redirects keep method and body, 303 drops them, and their number is limited", async (t) => {
  const there = await fakeServer(t, ({ method, body, headers }, reply) => {
    reply.end(
      `${method} ${body} ${headers.authorization ?? "-"} ${headers["content-type"] ?? "-"}`,
    );
  });
  const here = await fakeServer(t, ({ url }, reply) => {
    const status = Number(url.slice(1, 4));
    const location = url.endsWith("/loop") ? url : url.endsWith("/odd") ? "ftp://x/" : there.url;
    if (url.endsWith("/none")) reply.writeHead(status).end("nowhere");
    else reply.writeHead(status, { location }).end();
  });
  const http = caller(t);
  const go = async (path: string) => {
    const headers = { authorization: "mine", "content-type": "text/plain" };
    const reply = await http.call({ method: "POST", url: here.url + path, headers, body: "q" });
    return reply.body.toString();
  };
  for (const status of [301, 302, 307, 308]) {
    assert.equal(await go(`/${status}`), "POST q - text/plain", `${status}`);
  }
  assert.equal(await go("/303"), "GET  - -");
  assert.equal(await go("/302/none"), "nowhere");
  await fails(go("/307/loop"), "UNAVAILABLE", /more than 10 redirects/);
  assert.equal(here.heard.filter(({ url }) => url === "/307/loop").length, 11);
  await fails(go("/307/odd"), "UNAVAILABLE", /a redirect that is not followed/);
});

test("TLS: private authority, client certificate, no redirect to cleartext", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const [server, client] = [ca.issue("server"), ca.issue("client")];
  const plain = await fakeServer(t, hello);
  const secure = await fakeServer(
    t,
    ({ url }, reply) => {
      if (url === "/down") reply.writeHead(302, { location: plain.url });
      reply.end("secret");
    },
    {
      cert: server.cert,
      key: server.key,
      ca: ca.cert,
      requestCert: true,
      rejectUnauthorized: true,
    },
  );
  const own = { cert_file: client.certFile, key_file: client.keyFile };
  const get = async (tls: Parameters<typeof caller>[1], path = "/") =>
    (await caller(t, tls).call({ method: "GET", url: secure.url + path })).body.toString();
  const trusting = { ca_file: ca.certFile, ...own };
  assert.equal(await get({ tls: trusting }), "secret");
  assert.equal(await get({ tls: { insecure_skip_verify: true, ...own } }), "secret");
  await fails(get({ tls: own }), "UNAVAILABLE", /TLS: .*(certificate|issuer)/);
  await fails(
    get({ tls: { ca_file: ca.certFile } }),
    "UNAVAILABLE",
    /TLS: .*certificate|reset|closed/,
  );
  await fails(get({ tls: trusting }, "/down"), "UNAVAILABLE", /redirect that is not followed/);
  const spoken = `https://127.0.0.1:${plain.port}/`;
  await fails(
    caller(t).call({ method: "GET", url: spoken }),
    "UNAVAILABLE",
    /TLS: (handshake failed|wrong version number|packet length too long)/,
  );
  const elsewhere = secure.url.replace("127.0.0.1", "127.0.0.2");
  await fails(
    caller(t, { tls: trusting }).call({ method: "GET", url: elsewhere }),
    "UNAVAILABLE",
    /connection refused|TLS: .*altnames/,
  );
});

test("TLS: session keys are written to the key log file of either setting", async (t) => {
  const folder = temporaryFolder(t);
  const ca = authority(folder, "ca");
  const server = ca.issue("server");
  const secure = await fakeServer(t, hello, { cert: server.cert, key: server.key });
  const file = join(folder, "keys");
  for (const [at, key] of ["tls", "top"].entries()) {
    const tls = { ca_file: ca.certFile, key_log_file: key === "tls" ? file : "" };
    const http = caller(t, { tls, key_log_file: key === "top" ? file : "" });
    await http.call({ method: "GET", url: secure.url });
    const lines = () => readFileSync(file, "utf8").match(/CLIENT_HANDSHAKE_TRAFFIC_SECRET/g) ?? [];
    await until("keys are logged", () => lines().length === at + 1);
  }
});

test("an unusable TLS file makes the constructor throw an error with its key", (t) => {
  const folder = temporaryFolder(t);
  const [one, two] = [authority(folder, "one"), authority(folder, "two")];
  const refused = (tls: Parameters<typeof clientSettings>[0], words: RegExp) =>
    assert.throws(() => caller(t, tls), words);
  refused(
    { tls: { ca_file: "/nowhere/ca" } },
    /tls\.ca_file: \/nowhere\/ca: wanted a file that can be read, got ENOENT/,
  );
  refused({ tls: { cert_file: one.certFile } }, /cert_file and key_file together/);
  refused({ tls: { cert_file: one.certFile, key_file: two.keyFile } }, /belong together/);
  refused({ tls: { ca_file: one.keyFile } }, /in PEM/);
  refused({ key_log_file: "/nowhere/keys" }, /tls\.key_log_file: cannot write/);
});

/** A proxy that forwards and makes tunnels, and remembers what it was asked. */
test("a redirect with several locations fails; in other responses such a header is allowed", async (t) => {
  const server = await fakeServer(t, ({ url }, reply) => {
    const locations = url === "/same" ? ["/ok", "/ok"] : ["/ok", "/ok2"];
    reply.statusCode = url === "/made" ? 201 : 302;
    reply.setHeader("location", locations).end("x");
  });
  const get = (path: string) => caller(t).call({ method: "GET", url: server.url + path });
  await fails(
    get("/two"),
    "UNAVAILABLE",
    /^http:\/\/127\.0\.0\.1:\d+: a redirect with more than one location$/,
  );
  await fails(get("/same"), "UNAVAILABLE", /more than one location/);
  const made = await get("/made");
  assert.deepEqual([made.status, made.headers["location"]], [201, "/ok, /ok2"]);
  assert.equal(server.heard.length, 3);
});

test("proxy: plain HTTP is forwarded, TLS is tunnelled, both with credentials", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { cert, key } = ca.issue("server");
  const secure = await fakeServer(t, hello, { cert, key });
  const proxy = await fakeProxy(t);
  const uri = `http://me:pass@127.0.0.1:${proxy.port}`;
  const over = {
    use_proxy: true,
    tls: { ca_file: ca.certFile },
    proxy_connect_header: { "X-Team": ["a", "b"] },
  };
  const http = caller(t, over, { proxy: { http: uri, https: uri, no_proxy: [] } });
  const plain = await http.call({ method: "GET", url: "http://metrics.example:9090/x?y=z" });
  const basic = `Basic ${Buffer.from("me:pass").toString("base64")}`;
  const wanted = `forwarded http://metrics.example:9090/x?y=z metrics.example:9090 ${basic}`;
  assert.equal(plain.body.toString(), wanted);
  for (let round = 0; round < 2; round++) {
    const reply = await http.call({ method: "GET", url: secure.url });
    assert.equal(reply.body.toString(), "hello");
  }
  assert.equal(secure.heard[0]?.headers["proxy-authorization"], undefined);
  assert.equal(proxy.tunnels.length, 1, "the tunnel is kept");
  assert.equal(proxy.tunnels[0]?.to, `127.0.0.1:${secure.port}`);
  assert.equal(proxy.tunnels[0]?.headers["proxy-authorization"], basic);
  assert.equal(proxy.tunnels[0]?.headers["x-team"], "a, b");
});

test("proxy: one that refuses, and one that is unreachable", async (t) => {
  const proxy = await fakeProxy(t, 407);
  const through = (port: number) =>
    caller(
      t,
      { use_proxy: true },
      { proxy: { http: "", https: `127.0.0.1:${port}`, no_proxy: [] } },
    ).call({ method: "GET", url: "https://metrics.example/" });
  await fails(through(proxy.port), "UNAVAILABLE", /proxy answered CONNECT with status 407/);
  await fails(through(await deadPort()), "UNAVAILABLE", /connection refused/);
});

test("proxy: any proxy setting overrides the environment; use_proxy false disables both", async (t) => {
  const [set, named] = [await fakeProxy(t), await fakeProxy(t)];
  const direct = await fakeServer(t, hello);
  const environment: Readonly<Record<string, string>> = {
    HTTP_PROXY: named.url,
    NO_PROXY: "a.example, 127.0.0.1",
  };
  const way = async (
    url: string,
    proxy: Partial<typeof NO_PROXY> = {},
    use_proxy = true,
    env = environment,
  ): Promise<string> => {
    const before = [set, named, direct].map(({ heard }) => heard.length);
    const options = { proxy: { ...NO_PROXY, ...proxy }, env };
    await caller(t, { use_proxy }, options).call({ method: "GET", url });
    const at = [set, named, direct].findIndex(({ heard }, at) => heard.length > (before[at] ?? 0));
    return ["settings", "environment", "direct"][at] ?? "none";
  };
  assert.equal(await way("http://b.example/"), "environment");
  assert.equal(await way("http://b.example/", { http: set.url }), "settings");
  assert.equal(await way("http://b.example/", {}, true, { http_proxy: named.url }), "environment");
  assert.equal(await way(`${direct.url}/`), "direct");
  assert.equal(await way(`${direct.url}/`, { http: set.url }), "settings");
  const bare = { HTTP_PROXY: named.url };
  assert.equal(await way(`${direct.url}/`, {}, true, bare), "environment");
  assert.equal(await way(`${direct.url}/`, { no_proxy: ["b.example"] }, true, bare), "direct");
  assert.equal(await way(`${direct.url}/`, { https: set.url }, true, bare), "direct");
  assert.equal(await way(`${direct.url}/`, {}, false), "direct");
});

test("no_proxy: host names, subdomains, addresses, ranges, ports, everything", async (t) => {
  const proxy = await fakeProxy(t);
  const direct = await fakeServer(t, hello);
  const { port } = direct;
  const seen = async (host: string, ...no_proxy: string[]) => {
    const options = { proxy: { http: proxy.url, https: "", no_proxy } };
    const url = `http://${host}:${port}/`;
    const call = caller(t, { use_proxy: true }, options).call({ method: "GET", url });
    // Not every machine resolves subdomains of localhost: a failed lookup also shows that no proxy was used.
    const body = await call.then(
      (reply) => reply.body.toString(),
      (fault: Fault) => fault.message.replace(/^.*: no such host$/, "hello"),
    );
    return body === "hello" ? "direct" : "proxy";
  };
  for (const [host, item, wanted] of [
    ["127.0.0.1", "127.0.0.1", "direct"],
    ["127.0.0.1", "127.0.0.0/8", "direct"],
    ["127.0.0.1", "10.0.0.0/8", "proxy"],
    ["127.0.0.1", `127.0.0.1:${port}`, "direct"],
    ["127.0.0.1", "127.0.0.1:1", "proxy"],
    ["127.0.0.1", "*", "direct"],
    ["localhost", "LOCALHOST", "direct"],
    ["localhost", `localhost:${port}`, "direct"],
    ["localhost", ".localhost", "proxy"],
    ["localhost", "host", "proxy"],
    ["a.localhost", "localhost", "direct"],
    ["a.localhost", ".localhost", "direct"],
    ["a.localhost", "*.localhost", "direct"],
    ["a.example", "xample", "proxy"],
    ["a.example", "::1", "proxy"],
  ] as const) {
    assert.equal(await seen(host, item), wanted, `${host} with ${item}`);
  }
});

test("a proxy address of another kind is refused by a message without the address", () => {
  const proxy = { http: "socks5://me:secret@proxy:1", https: "", no_proxy: [] };
  const options = {
    settings: clientSettings({ use_proxy: true }),
    proxy,
    env: {},
    clock: fakeClock(),
  };
  assert.throws(
    () => new HttpClient(options),
    (thrown) =>
      thrown instanceof Fault &&
      /client\.proxy\.http: wanted host:port/.test(thrown.message) &&
      !/secret/.test(thrown.message),
  );
});

test("close aborts calls and connection attempts in progress; later calls fail", async (t) => {
  const server = await fakeServer(t, silence);
  const shook: Socket[] = [];
  const mute = await rawServer(t, (socket) => shook.push(socket));
  const http = caller(t);
  const asked = http.call({ method: "GET", url: server.url });
  const shaking = http.call({ method: "GET", url: `https://127.0.0.1:${mute}/` });
  const ended = Promise.all([
    fails(asked, "CANCELLED", /client was closed/),
    fails(shaking, "CANCELLED", /client was closed/),
  ]);
  await until("both arrive", () => server.heard.length === 1 && shook.length === 1);
  await http.close();
  await ended;
  await until("no connection is left", () => server.open === 0 && shook[0]?.readyState !== "open");
  await fails(http.call({ method: "GET", url: server.url }), "CANCELLED", /client was closed/);
});

/** A server that accepts no connection: its process is frozen, and its queue is full. */
async function deafServer(t: TestContext): Promise<number> {
  const listen = `const server = require("node:net").createServer();
    server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(server.address().port));`;
  const own = child(t, process.execPath, ["-e", listen]);
  await own.until("it listens", () => own.out().includes("\n"));
  const port = Number(own.out());
  await own.freeze();
  for (let at = 0; at < 8; at++) {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    t.after(() => socket.destroy());
  }
  return port;
}

const LINUX = { skip: process.platform !== "linux" };

test("network_timeout bounds the wait for a connection", LINUX, async (t) => {
  const url = `http://127.0.0.1:${await deafServer(t)}`;
  const http = caller(t, { network_timeout: 500 });
  await fails(http.call({ method: "GET", url }), "DEADLINE_EXCEEDED", /the connection timed out$/);
});

test(
  "network_keep_alive is when the system probes an idle connection; below 0 it does not",
  LINUX,
  async (t) => {
    for (const [network_keep_alive, wanted] of [
      [20_000, "02"],
      [-1, "00"],
    ] as const) {
      const server = await fakeServer(t, hello);
      const http = caller(t, { network_keep_alive });
      await http.call({ method: "GET", url: server.url });
      const far = `:${server.port.toString(16).toUpperCase().padStart(4, "0")}`;
      const own = () =>
        readFileSync("/proc/net/tcp", "utf8")
          .split("\n")
          .map((line) => line.trim().split(/\s+/))
          .find((fields) => fields[2]?.endsWith(far) && fields[3] === "01");
      // The kernel's timer of the connection: 02 is keep-alive, with hundredths of a second until it fires.
      await until("the timer is set", () => own()?.[5]?.startsWith(wanted) === true);
      const hundredths = Number.parseInt(own()?.[5]?.split(":")[1] ?? "", 16);
      assert.ok(network_keep_alive < 0 || (hundredths > 0 && hundredths <= 2_000), `${hundredths}`);
    }
  },
);
