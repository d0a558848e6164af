// An application that listens on 127.0.0.1 only, behind the injected Envoy: its probes, as injection writes them, are called
// from the address of the pod, and answer what the application answers. No agent runs, so no policy is asked.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type TestContext, test } from "node:test";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import type { JsonObject } from "#injector/pod.ts";
import { redirectToListener } from "../../src/injector/mutation/probes.ts";
import { http1 } from "../kit/clients/http.ts";
import { freePort } from "../kit/free-port.ts";
import { startEnvoy } from "../kit/servers/envoy.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { until } from "../kit/until.ts";
import { callHandler } from "../lab/kubelet/container/probe.ts";
import type { ContainerSpec, Handler } from "../lab/kubelet/objects.ts";

/** Envoy listens on it, and the application does not. */
const POD_ADDRESS = "127.0.0.9";
const NO_AGENT = "127.0.0.1:1";
const PROBE_MS = 5_000;

/** Starts an Envoy before `port`, and returns a kubelet that calls the probes of a container, by their names. */
async function kubelet(t: TestContext, port: number, probes: Readonly<Record<string, object>>) {
  const listener = await freePort();
  const declared = { name: "shop", image: "", ports: [{ name: "http", containerPort: port }] };
  const before = { ...declared, ...probes } as unknown as JsonObject & { readonly name: string };
  const { container, requests } = redirectToListener(before, port, listener);
  await startEnvoy(t, {
    bootstrap: "injected",
    agent: NO_AGENT,
    service: port,
    probes: { port: listener, requests },
  });
  const spec = container as unknown as ContainerSpec;
  const target = {
    container: spec,
    address: POD_ADDRESS,
    run: () => assert.fail("no probe runs a program"),
  };
  const call = (name: string, timeoutMs = PROBE_MS) => {
    const all = { ...spec, ...spec.lifecycle } as unknown as Readonly<Record<string, Handler>>;
    return callHandler(all[name] ?? {}, target, timeoutMs);
  };
  return { call, listener };
}

async function application(
  t: TestContext,
  port: number,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  tls?: { readonly cert: Buffer; readonly key: Buffer },
): Promise<{ stop(): Promise<void> }> {
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  t.after(stop);
  return { stop };
}

test("probes and hooks over HTTP: with their path, query and headers, and they fail as the application does", async (t) => {
  const port = await freePort();
  const seen: string[] = [];
  let status = 200;
  const start = () =>
    application(t, port, ({ method, url = "", headers }, response) => {
      seen.push([method, url, headers["x-forwarded-proto"], headers["x-probe"]].join(" "));
      if (url === "/hang") return;
      response.writeHead(status, url === "/moved" ? { location: "/elsewhere" } : {}).end();
    });
  const httpHeaders = [
    { name: "X-Probe", value: "kubelet" },
    { name: "X-Forwarded-Proto", value: "https" },
  ];
  const { call, listener } = await kubelet(t, port, {
    readinessProbe: { httpGet: { path: "/ready?full=1&a=%2F", port: "http", httpHeaders } },
    livenessProbe: { httpGet: { port, path: "/ä b", httpHeaders } },
    startupProbe: { httpGet: { port, path: "/hang", httpHeaders } },
    lifecycle: {
      postStart: { httpGet: { port: String(port), path: "begun", httpHeaders } },
      preStop: { httpGet: { port, path: "/moved", httpHeaders } },
    },
  });
  assert.match((await call("readinessProbe")) ?? "", /503/, "nobody listens yet");
  const { stop } = await start();
  for (const each of ["readinessProbe", "livenessProbe", "postStart", "preStop"])
    assert.equal(await call(each), undefined, each);
  assert.deepEqual(
    seen.splice(0),
    ["/ready?full=1&a=%2F", "/%C3%A4%20b", "/begun", "/moved"].map(
      (path) => `GET ${path} https kubelet`,
    ),
  );
  status = 500;
  assert.match((await call("readinessProbe")) ?? "", /500/);
  assert.match((await call("startupProbe", 200)) ?? "", /abort/i);
  seen.length = 0;
  status = 200;

  await t.test("nobody reaches anything else there", async (t) => {
    const ask = http1(t, `http://${POD_ADDRESS}:${listener}`);
    const others = [
      { path: "/" },
      { path: "/ready" },
      { path: "/ready?full=1&a=%2F&b" },
      { path: "//moved" },
      { path: "/moved", method: "POST" },
      { path: "/.sluice/https/moved" },
      { path: "/.sluice/tcp" },
    ];
    for (const each of others) assert.equal((await ask(each)).status, 404, JSON.stringify(each));
    assert.deepEqual(seen, []);
    const moved = await ask({ path: "/moved" });
    assert.deepEqual([moved.status, moved.headers["location"]], [200, undefined]);
  });

  await stop();
  assert.match((await call("readinessProbe")) ?? "", /503/);
  await start();
  assert.equal(await call("readinessProbe"), undefined);
});

test("probes over HTTPS, without looking at the certificate", async (t) => {
  const port = await freePort();
  const seen: (string | undefined)[] = [];
  const scheme = "HTTPS";
  const { call } = await kubelet(t, port, {
    readinessProbe: { httpGet: { path: "/ready?full=1", port, scheme } },
    livenessProbe: { httpGet: { port, scheme } },
  });
  const { stop } = await application(
    t,
    port,
    ({ url }, response) => response.end(String(seen.push(url))),
    authority(temporaryFolder(t), "nobody").issue("somebody else"),
  );
  assert.equal(await call("readinessProbe"), undefined);
  assert.equal(await call("livenessProbe"), undefined);
  assert.deepEqual(seen, ["/ready?full=1", "/"]);
  await stop();
  assert.match((await call("readinessProbe")) ?? "", /503/);
});

test("probes over gRPC, with the name of the service", async (t) => {
  const port = await freePort();
  const { call } = await kubelet(t, port, {
    readinessProbe: { grpc: { port, service: "shop" } },
    livenessProbe: { grpc: { port, service: "cellar" } },
  });
  const bytes = (message: Buffer) => message;
  const server = new Server();
  server.addService(
    {
      check: {
        path: "/grpc.health.v1.Health/Check",
        requestStream: false,
        responseStream: false,
        requestSerialize: bytes,
        requestDeserialize: bytes,
        responseSerialize: bytes,
        responseDeserialize: bytes,
      },
    },
    {
      check: ({ request }: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) =>
        done(null, Buffer.from([0x08, request.toString("latin1").endsWith("shop") ? 1 : 2])),
    },
  );
  t.after(() => server.forceShutdown());
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  assert.equal(await call("readinessProbe"), undefined);
  assert.match((await call("livenessProbe")) ?? "", /0802/);
  server.forceShutdown();
  assert.match((await call("readinessProbe")) ?? "", /UNAVAILABLE/);
});

test("probes over TCP ask whether the application accepts connections", async (t) => {
  const port = await freePort();
  const { call } = await kubelet(t, port, {
    readinessProbe: { tcpSocket: { port: "http" }, periodSeconds: 1 },
  });
  assert.match((await call("readinessProbe")) ?? "", /503/);
  const { stop } = await application(t, port, (_, response) => response.end());
  await until("it is ready", async () => (await call("readinessProbe")) === undefined);
  await stop();
  await until("it is not ready", async () => (await call("readinessProbe")) !== undefined);
});
