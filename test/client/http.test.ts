// The HTTP client against real sockets: calls, replies, redirects and connections, and how each failure is reported.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { Fault } from "#base/fault.ts";
import type { HttpClient } from "#client/http.ts";
import { memoryLog } from "../kit/sluice/log.ts";
import { until } from "../kit/until.ts";
import { type Answering, caller, type FakeServer, fakeServer } from "../prometheus/kit.ts";
import { deadPort, fails, hello, rawServer, silence } from "./http/setup.ts";

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

test("at debug each call is one line, which names no credential, query or body", async (t) => {
  const server = await fakeServer(t, hello);
  const log = memoryLog("debug");
  const http = caller(t, {}, { log });
  const url = `http://me:secret@127.0.0.1:${server.port}/a/b?token=secret`;
  await http.call({ method: "POST", url, body: "secret" });
  const stream = await http.stream({ method: "GET", url });
  for await (const _ of stream.body);
  const refused = `http://me:secret@127.0.0.1:${await deadPort()}/c`;
  await assert.rejects(http.call({ method: "GET", url: refused }));
  const told = log.lines.map(({ level, message, fields: { server, ms, ...fields } }) => {
    assert.deepEqual([level, message, typeof ms], ["debug", "called a server", "number"]);
    assert.match(String(server), /^http:\/\/127\.0\.0\.1:\d+$/);
    return { ...fields, error: Fault.from(fields["error"] ?? new Fault("OK", "")).code };
  });
  assert.deepEqual(told, [
    { method: "POST", path: "/a/b", status: 200, error: "OK" },
    { method: "GET", path: "/a/b", status: 200, error: "OK" },
    { method: "GET", path: "/c", error: "UNAVAILABLE" },
  ]);
  assert.ok(!JSON.stringify(log.lines).includes("secret"));
});

test("only http and https URLs are accepted", async (t) => {
  const http = caller(t);
  for (const url of ["ftp://a/", "nonsense", ""]) {
    await fails(http.call({ method: "GET", url }), "INVALID_ARGUMENT", /http:\/\/ or https/);
  }
});

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

const LINUX = { skip: process.platform !== "linux" };

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
