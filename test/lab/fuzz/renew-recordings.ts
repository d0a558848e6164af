// Records what real clients send, through a relay: `node test/lab/fuzz/renew-recordings.ts` renews the recordings that
// the fuzzer mutates and replays. A client that is not installed keeps its present recording.

import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { ReadScheduler } from "#h2/read-scheduler.ts";
import { NO_ACCESS_CONTROL } from "#serve/administration.ts";
import { openPort } from "#serve/port.ts";
import { curl, ghz, grpcio, grpcurl, h2load } from "../../../deploy/tools/install.ts";
import { startEnvoy, startService } from "../../kit/servers/envoy.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { portSettings, realClock } from "../../kit/sluice/port.ts";
import { fuzzService, ROUTES } from "./engine/services.ts";
import { FOLDER } from "./load-recordings.ts";

const run = promisify(execFile);
const SERVICE = "/fuzz.Service/";
/** Most bytes kept of a recording; the rest of a longer one adds nothing new. */
const MAX_BYTES = 40_000;

const port = await openPort({
  accessControl: NO_ACCESS_CONTROL,
  services: [fuzzService(realClock, () => undefined)],
  routes: ROUTES,
  settings: portSettings({ grpc: { transport: "own", enable_reflection: false } }),
  readScheduler: new ReadScheduler(realClock),
  clock: realClock,
  log: memoryLog(),
});

/** Lets a client make its calls and stores what it sent on its longest connection. */
async function record(name: string, call: (address: string) => Promise<void>): Promise<void> {
  const connections: Buffer[][] = [];
  const [host = "", digits = ""] = port.address.split(":");
  const relay = createServer((client) => {
    const parts: Buffer[] = [];
    connections.push(parts);
    const server = connect(Number(digits), host);
    client.on("data", (chunk: Buffer) => parts.push(chunk));
    client.pipe(server);
    server.pipe(client);
    for (const end of [client, server]) {
      end.on("error", () => {
        client.destroy();
        server.destroy();
      });
    }
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  try {
    await call(`127.0.0.1:${(relay.address() as AddressInfo).port}`);
    await sleep(100);
    const [longest = Buffer.alloc(0)] = connections
      .map((parts) => Buffer.concat(parts))
      .sort((a, b) => b.length - a.length);
    writeFileSync(join(FOLDER, `${name}.bin`), longest.subarray(0, MAX_BYTES));
    process.stdout.write(`${name}: ${longest.length} bytes\n`);
  } catch (thrown) {
    process.stderr.write(`${name}: not recorded: ${String(thrown).slice(0, 200)}\n`);
  } finally {
    relay.close();
  }
}

const bytes = (buffer: Buffer) => buffer;
const text = (value: string) => Buffer.from(value);

async function byGrpcJs(address: string): Promise<void> {
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set("x-text", "hello");
  metadata.set("x-data-bin", Buffer.from([0, 1, 2, 255]));
  const unary = (method: string, message: string, options = {}) =>
    new Promise<void>((done) => {
      client.makeUnaryRequest(
        SERVICE + method,
        bytes,
        bytes,
        text(message),
        metadata,
        options,
        () => done(),
      );
    });
  for (const message of ["", "a", "b".repeat(3_000)]) await unary("Echo", message);
  await unary("Give", "200000");
  await unary("Later", "later", { deadline: Date.now() + 5_000 });
  await unary("Later", "late", { deadline: Date.now() + 20 });
  await unary("Fail", "");
  await unary("Nothing", "");
  const flow = client.makeServerStreamRequest(`${SERVICE}Flow`, bytes, bytes, text("5000 5"));
  await once(flow.resume(), "end");
  const chat = client.makeBidiStreamRequest(`${SERVICE}Chat`, bytes, bytes);
  for (const message of ["one", "two", "three"]) chat.write(text(message));
  chat.end();
  await once(chat.resume(), "end");
  const wait = client.makeBidiStreamRequest(`${SERVICE}Wait`, bytes, bytes);
  wait.on("error", () => undefined).write(text("waits"));
  await sleep(20);
  wait.cancel();
  await Promise.all(Array.from({ length: 20 }, (_, at) => unary("Echo", `at once ${at}`)));
  client.close();
}

async function byNode(address: string): Promise<void> {
  const session = connectHttp2(`http://${address}`);
  const ask = async (method: string, path: string, body?: string, more = {}) => {
    const stream = session.request({ ":method": method, ":path": path, ...more });
    stream.on("error", () => undefined);
    stream.end(body);
    stream.resume();
    await once(stream, "close");
  };
  const json = { "content-type": "application/json" };
  await ask("GET", "/hello?a=1", undefined, { accept: "*/*", cookie: ["a=1", "b=2"] });
  await ask("HEAD", "/hello");
  await ask("POST", "/take", "j".repeat(20_000), json);
  await ask("POST", "/take", "{}", { ...json, "content-length": "2" });
  await ask("GET", "/give/100000");
  await ask("GET", "/nowhere");
  session.settings({ initialWindowSize: 100_000, headerTableSize: 0 });
  await ask("GET", "/hello");
  const broken = session.request({ ":method": "POST", ":path": "/take", ...json });
  broken.on("error", () => undefined).write("{");
  await sleep(20);
  broken.close(8);
  await new Promise((done) => session.ping(done));
  await Promise.all(Array.from({ length: 10 }, () => ask("GET", "/hello")));
  await new Promise<void>((done) => session.close(done));
}

async function byCurl(address: string): Promise<void> {
  const url = (path: string) => `http://${address}${path}`;
  const json = ["-H", "content-type: application/json"];
  const body = `{"a":"${"b".repeat(5_000)}"}`;
  const common = ["-s", "--http2-prior-knowledge", "-m", "5"];
  // Some builds fail at the second of several requests; what was sent until then is still a recording.
  await run(curl(), [
    ...common,
    ...json,
    "-d",
    body,
    url("/take"),
    url("/take"),
    "--next",
    ...common,
    "-I",
    url("/hello"),
  ]).catch(() => undefined);
}

/**
 * A proxy's checks and health checks. The port does not have the service that Envoy asks, so Envoy fails open and
 * lets every request pass.
 */
async function byEnvoy(address: string): Promise<void> {
  const ends: (() => unknown)[] = [];
  // The cast: helpers of tests use nothing of a test but `after`.
  const scope = { after: (end: () => unknown) => ends.push(end) } as unknown as TestContext;
  try {
    const service = await startService(scope);
    const { url } = await startEnvoy(scope, { agent: address, service });
    for (let at = 0; at < 20; at++) {
      const headers = { "user-id": String(at % 3), cookie: "a=1", "x-long": "l".repeat(at * 20) };
      await fetch(`${url}/path/${at}?q=1`, { headers }).then((reply) => reply.arrayBuffer());
    }
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

async function byH2load(address: string): Promise<void> {
  await run(h2load(), ["-n", "60", "-c", "1", "-m", "10", `http://${address}/hello`]);
}

async function byPython(address: string): Promise<void> {
  const script = `
import grpc
channel = grpc.insecure_channel("${address}", options=[("grpc.default_compression_algorithm", 2)])
pairs = (("x-text", "hello"), ("x-data-bin", b"\\x00\\xff"))
for message in (b"", b"a", b"b" * 3000):
    channel.unary_unary("${SERVICE}Echo")(message, metadata=pairs, timeout=5)
list(channel.unary_stream("${SERVICE}Flow")(b"5000 5"))
channel.stream_unary("${SERVICE}Gather")(iter([b"one", b"two"]))
list(channel.stream_stream("${SERVICE}Chat")(iter([b"one", b"two"])))
calls = [channel.unary_unary("${SERVICE}Echo").future(b"%d" % at) for at in range(20)]
for call in calls: call.result()
late = channel.unary_unary("${SERVICE}Later").future(b"x")
late.cancel()
channel.close()
`;
  const env = { ...process.env, PYTHONPATH: grpcio() };
  await run("python3", ["-c", script], { env });
}

/** ghz and grpcurl both use grpc-go; both can call the health service. */
async function byGhz(address: string): Promise<void> {
  const proto = join(FOLDER, "../health.proto");
  const common = ["--insecure", "--proto", proto, "--call", "grpc.health.v1.Health.Check"];
  await run(ghz(), [...common, "-n", "50", "-c", "10", "--connections", "1", "-d", "{}", address]);
}

async function byGrpcurl(address: string): Promise<void> {
  const proto = ["-plaintext", "-import-path", join(FOLDER, ".."), "-proto", "health.proto"];
  const service = "grpc.health.v1.Health";
  // Watch runs until its time limit.
  spawnSync(grpcurl(), [...proto, "-max-time", "1", address, `${service}/Check`]);
  const { promise, resolve } = Promise.withResolvers<void>();
  execFile(grpcurl(), [...proto, "-max-time", "1", address, `${service}/Watch`], () => resolve());
  await promise;
}

mkdirSync(FOLDER, { recursive: true });
await record("grpc-js", byGrpcJs);
await record("node", byNode);
await record("curl", byCurl);
await record("envoy", byEnvoy);
await record("h2load", byH2load);
await record("python", byPython);
await record("ghz", byGhz);
await record("grpcurl", byGrpcurl);
await port.cut();
