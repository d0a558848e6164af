import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect, createServer, type Socket } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { GrpcService, Route } from "#base/handler.ts";
import { arrived } from "../kit/attack/server-end.ts";
import { grpcClient } from "../kit/clients/grpc.ts";
import { dial, exchange, readAll, testPort } from "../kit/sluice/port.ts";
import { until } from "../kit/until.ts";

const echo: GrpcService = {
  name: "test.Echo",
  healthNames: ["old.Echo"],
  methods: { Say: { kind: "unary", handle: (message) => message } },
};
const hello: Route = {
  method: "GET",
  path: "/hello",
  about: "Says hello",
  handle: () => ({ status: 200, headers: { "content-type": "text/plain" }, body: "hello" }),
};
const both = { services: [echo], routes: [hello] };
const message = Buffer.from("over the wire");
const TRANSPORTS = ["own", "grpc-js"] as const;

test("serves HTTP/1.1 and cleartext HTTP/2 on one port", async (t) => {
  const port = await testPort(t, both);
  const reply = await fetch(`http://${port.address}/hello`);
  assert.equal(await reply.text(), "hello");
  const called = await grpcClient(t, port.address).unary("/test.Echo/Say", message);
  assert.deepEqual(called.message, message);
});

/** A relay that passes bytes to the server one at a time; returns its port. */
async function dripRelay(t: TestContext, port: number): Promise<number> {
  const relay = createServer((incoming) => {
    const outgoing = connect({ host: "127.0.0.1", port, noDelay: true });
    outgoing.pipe(incoming);
    incoming.on("error", () => outgoing.destroy());
    outgoing.on("error", () => incoming.destroy());
    void passOn(incoming, outgoing);
    t.after(() => incoming.destroy());
    t.after(() => outgoing.destroy());
  });
  t.after(() => relay.close());
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const bound = relay.address();
  assert.ok(bound !== null && typeof bound === "object");
  return bound.port;
}

async function passOn(from: Socket, to: Socket): Promise<void> {
  try {
    for await (const chunk of from) {
      for (const byte of chunk as Buffer) {
        to.write(Uint8Array.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    to.end();
  } catch {
    to.destroy();
  }
}

/** `GET /hello` over cleartext HTTP/2. Sluice's transport answers from the JSON routes; the gRPC library has none. */
function askHttp2(t: TestContext, connection: () => Socket): Promise<readonly [unknown, string]> {
  const session = connectHttp2("http://localhost", { createConnection: connection });
  t.after(() => session.destroy());
  session.on("error", () => undefined);
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": "/hello" });
    let status: unknown;
    let body = "";
    stream.on("response", (headers) => {
      status = headers[":status"];
    });
    stream.setEncoding("utf8");
    stream.on("data", (chunk: string) => {
      body += chunk;
    });
    stream.on("end", () => resolve([status, body]));
    stream.on("error", reject);
  });
}

const OWN = [200, "hello"];
const LIBRARY = [415, ""];

for (const [transport, answer] of [
  ["auto", OWN],
  ["own", OWN],
  ["grpc-js", LIBRARY],
] as const) {
  test(`${transport}, on loopback and on a Unix socket: serves gRPC, and answers JSON over HTTP/2 with ${answer[0]}`, async (t) => {
    const path = join(folder(t), "port.sock");
    for (const addr of ["127.0.0.1:0", `unix:${path}`]) {
      const port = await testPort(t, {
        ...both,
        settings: { listener: { addr }, grpc: { transport } },
      });
      const called = await grpcClient(t, port.address).unary("/test.Echo/Say", message);
      assert.deepEqual(called.message, message);
      const to = addr.startsWith("unix:") ? { path } : { host: port.host, port: port.port };
      assert.deepEqual(await askHttp2(t, () => connect(to)), answer);
    }
  });
}

test("loads the gRPC library only on request", () => {
  // The order matters: a module stays loaded.
  const opened = [
    { listener: { addr: ":0" }, grpc: { transport: "own" } },
    { listener: { addr: ":0" }, grpc: { transport: "auto" } },
    { listener: { addr: "127.0.0.1:0" }, grpc: { transport: "grpc-js" } },
  ];
  const script = `
    import { createRequire } from "node:module";
    import { NO_ACCESS_CONTROL } from "#serve/administration.ts";
    import { openPort } from "#serve/port.ts";
    import { memoryLog } from "./test/kit/sluice/log.ts";
    import { portSettings, realClock } from "./test/kit/sluice/port.ts";
    const loaded = [];
    for (const over of ${JSON.stringify(opened)}) {
      const settings = portSettings(over);
      const port = await openPort({ settings, services: [], routes: [], accessControl: NO_ACCESS_CONTROL, clock: realClock, log: memoryLog() });
      await port.cut();
      const files = Object.keys(createRequire(import.meta.url).cache);
      loaded.push(files.some((file) => file.includes("@grpc/grpc-js")));
    }
    console.log(JSON.stringify(loaded));
  `;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module-typescript", "-e", script],
    { encoding: "utf8", cwd: join(import.meta.dirname, "../..") },
  );
  assert.equal(stdout, "[false,false,true]\n", stderr);
});

for (const transport of TRANSPORTS) {
  test(`understands a peer that sends byte by byte, over HTTP/1.1 and HTTP/2: ${transport}`, async (t) => {
    const port = await testPort(t, { ...both, settings: { grpc: { transport } } });
    const relay = await dripRelay(t, port.port);
    const called = await grpcClient(t, `127.0.0.1:${relay}`).unary("/test.Echo/Say", message);
    assert.deepEqual(called.message, message);
    const socket = connect({ host: "127.0.0.1", port: relay });
    t.after(() => socket.destroy());
    const text = await exchange(
      socket,
      "GET /hello HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nhello$/s);
  });

  test(`closes a connection that begins like the HTTP/2 preface and then deviates: ${transport}`, async (t) => {
    const port = await testPort(t, { ...both, settings: { grpc: { transport } } });
    for (const text of ["PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRI / HTTP/1.1\r\n\r\n"]) {
      assert.equal(await exchange(dial(t, port), text), "");
    }
  });

  test(`closes an incomplete HTTP/2 handshake within grpc.connection_timeout: ${transport}`, async (t) => {
    const settings = { grpc: { transport, connection_timeout: 100 } };
    const port = await testPort(t, { ...both, settings });
    assert.equal(await exchange(dial(t, port), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "");
  });

  test(`reports the peer of a dual-stack port by its plain IPv4 address: ${transport}`, async (t) => {
    const who: GrpcService = {
      name: "test.Who",
      methods: { Am: { kind: "unary", handle: (_, call) => Buffer.from(call.peer) } },
    };
    const me: Route = {
      ...hello,
      path: "/me",
      handle: (_, call) => ({ status: 200, headers: {}, body: call.peer }),
    };
    const port = await testPort(t, {
      services: [who],
      routes: [me],
      settings: { listener: { addr: ":0" }, grpc: { transport } },
    });
    const target = `127.0.0.1:${port.port}`;
    assert.equal(await (await fetch(`http://${target}/me`)).text(), "127.0.0.1");
    const called = await grpcClient(t, target).unary("/test.Who/Am", message);
    assert.equal(String(called.message), "127.0.0.1");
  });
}

for (const method of ["PUT", "POST", "PROPFIND", "PATCH"]) {
  test(`does not take ${method} for the HTTP/2 preface`, async (t) => {
    const port = await testPort(t, both);
    const socket = dial(t, port);
    const text = await exchange(
      socket,
      `${method} /hello HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
    );
    assert.match(text, /^HTTP\/1\.1 405 /);
  });
}

test("closes TLS connections on a cleartext port", async (t) => {
  const port = await testPort(t, both);
  assert.equal(await exchange(dial(t, port), Uint8Array.of(0x16, 3, 1, 0, 5)), "");
});

test("closes a silent connection within read_header_timeout", async (t) => {
  const port = await testPort(t, { ...both, settings: { http: { read_header_timeout: 100 } } });
  assert.equal(await readAll(dial(t, port)), "");
});

test("listens on IPv6, on both families, and on one family alone", async (t) => {
  const six = await testPort(t, { ...both, settings: { listener: { addr: "[::1]:0" } } });
  assert.match(six.address, /^\[::1\]:\d+$/);
  assert.equal(await (await fetch(`http://${six.address}/hello`)).text(), "hello");

  for (const network of ["tcp", ""]) {
    const every = await testPort(t, { ...both, settings: { listener: { addr: ":0", network } } });
    for (const host of ["127.0.0.1", "[::1]"]) {
      assert.equal(await (await fetch(`http://${host}:${every.port}/hello`)).text(), "hello");
    }
  }
  const only = await testPort(t, {
    ...both,
    settings: { listener: { addr: ":0", network: "tcp6" } },
  });
  await assert.rejects(fetch(`http://127.0.0.1:${only.port}/hello`));
  assert.equal(await (await fetch(`http://[::1]:${only.port}/hello`)).text(), "hello");
  const four = await testPort(t, {
    ...both,
    settings: { listener: { addr: "localhost:0", network: "tcp4" } },
  });
  assert.match(four.address, /^127\.0\.0\.1:\d+$/);
});

test("listens on an IPv6 address with a zone", async (t) => {
  const found = Object.entries(networkInterfaces()).flatMap(([zone, addresses = []]) =>
    addresses.filter(({ family }) => family === "IPv6").map(({ address }) => ({ zone, address })),
  );
  // An address of one link needs its zone; not every machine has one.
  const linkLocal = found.find(({ address }) => address.startsWith("fe80:"));
  const loopback = found.find(({ address }) => address === "::1");
  const zoned = [linkLocal, loopback].filter((one) => one !== undefined);
  assert.notEqual(zoned.length, 0);
  for (const { address, zone } of zoned) {
    const addr = `[${address}%${zone}]:0`;
    const port = await testPort(t, { ...both, settings: { listener: { addr } } });
    const options = { host: `${address}%${zone}`, port: port.port, path: "/hello", agent: false };
    const status = await new Promise((resolve, reject) => {
      const asked = request(options, (reply) => {
        reply.resume();
        resolve(reply.statusCode);
      });
      asked.on("error", reject).end();
    });
    assert.equal(status, 200, addr);
  }
});

const wrong: readonly (readonly [addr: string, network: string])[] = [
  ["8080", "tcp"],
  ["host:99999", "tcp"],
  ["[1.2.3.4]:80", "tcp"],
  ["unix:", "tcp"],
  ["127.0.0.1:0", "udp"],
  ["127.0.0.1:0", "tcp6"],
  ["[::1]:0", "tcp4"],
];
for (const [addr, network] of wrong) {
  test(`refuses to listen on ${addr} over ${network}`, async (t) => {
    await assert.rejects(testPort(t, { settings: { listener: { addr, network } } }), /listener\./);
  });
}

test("refuses a port that is in use, with a message that says so", async (t) => {
  const port = await testPort(t, both);
  const second = testPort(t, { settings: { listener: { addr: port.address } } });
  await assert.rejects(second, /server\.listener\.addr: the address is in use/);
});

test("names an address on which it cannot listen", async (t) => {
  // TEST-NET-1 (RFC 5737): no machine has this address.
  const port = testPort(t, { settings: { listener: { addr: "192.0.2.1:80" } } });
  await assert.rejects(
    port,
    /cannot listen on server\.listener\.addr: this machine does not have the address \(192\.0\.2\.1:80\)/,
  );
});

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "sluice-port-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function askUnix(socketPath: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, path: "/hello", agent: false }, (reply) => {
      reply.resume();
      resolve(reply.statusCode);
    });
    outgoing.on("error", reject);
    outgoing.end();
  });
}

test("serves HTTP/1.1 and HTTP/2 on a Unix socket and removes it afterwards", async (t) => {
  const path = join(folder(t), "port.sock");
  const port = await testPort(t, { ...both, settings: { listener: { addr: `unix:${path}` } } });
  assert.equal(port.address, `unix:${path}`);
  assert.equal(await askUnix(path), 200);
  const called = await grpcClient(t, `unix:${path}`).unary("/test.Echo/Say", message);
  assert.deepEqual(called.message, message);
  const rival = testPort(t, { settings: { listener: { addr: `unix:${path}` } } });
  await assert.rejects(rival, /another process listens/);
  assert.equal(await askUnix(path), 200, "the refused second port removed the socket");
  await port.cut();
  assert.equal(existsSync(path), false);
});

test("replaces a stale socket file, but no other file", async (t) => {
  const path = join(folder(t), "port.sock");
  // Only a process that is killed leaves its socket file behind.
  spawnSync(process.execPath, [
    "-e",
    `require("node:net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`,
  ]);
  assert.equal(existsSync(path), true);
  const port = await testPort(t, { ...both, settings: { listener: { addr: `unix:${path}` } } });
  assert.equal(await askUnix(path), 200);
  await port.cut();
  writeFileSync(path, "mine");
  const refused = testPort(t, { settings: { listener: { addr: `unix:${path}` } } });
  await assert.rejects(refused, /not a socket/);
  assert.equal(existsSync(path), true);
});

test("closes connections beyond the limit and logs it once", async (t) => {
  const port = await testPort(t, { ...both, maxConnections: 2 });
  const get = "GET /hello HTTP/1.1\r\nhost: x\r\n\r\n";
  const held = [dial(t, port), dial(t, port)];
  for (const socket of held) {
    socket.write(get);
    await new Promise((resolve) => socket.once("data", resolve));
  }
  for (const socket of [dial(t, port), dial(t, port)])
    assert.equal(await exchange(socket, get), "");
  assert.deepEqual(
    port.log.lines.map(({ level }) => level),
    ["warn"],
  );
  held[0]?.destroy();
  await until("its place is free", async () => (await exchange(dial(t, port), get)) !== "");
  assert.equal(await (await fetch(`http://${port.address}/hello`)).text(), "hello");
});

test("says whether other machines can connect", async (t) => {
  const reach = async (addr: string) =>
    (await testPort(t, { routes: [hello], settings: { listener: { addr } } })).remote;
  assert.equal(await reach("127.0.0.1:0"), false);
  assert.equal(await reach("[::1]:0"), false);
  assert.equal(await reach(`unix:${join(folder(t), "port.sock")}`), false);
  assert.equal(await reach(":0"), true);
  assert.equal(await reach("0.0.0.0:0"), true);
});

test("leaves nothing behind after cut()", async (t) => {
  const port = await testPort(t, both);
  const socket = dial(t, port);
  socket.write("GE");
  await arrived(socket);
  const before = process.getActiveResourcesInfo();
  assert.ok(before.includes("TCPServerWrap"));
  await port.cut();
  const left = () => process.getActiveResourcesInfo().includes("TCPServerWrap");
  await until("the server is gone", () => !left());
});
