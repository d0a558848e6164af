// Asks a container how it is, as its probes say, and calls the hooks of its life.

import { request as http } from "node:http";
import { request as https } from "node:https";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials } from "@grpc/grpc-js";
import type { ContainerSpec, Handler, Probe } from "../objects.ts";
import type { Ran } from "./process.ts";

export interface ProbeTarget {
  readonly container: ContainerSpec;
  /** The pod's. */
  readonly address: string;
  readonly run: (command: readonly string[], timeoutMs: number) => Promise<Ran>;
}

const MS = 1_000;

/** Calls a handler once. Resolves with the reason of a failure, or undefined. */
export async function callHandler(
  handler: Handler,
  target: ProbeTarget,
  timeoutMs: number,
): Promise<string | undefined> {
  const { exec, httpGet, tcpSocket, grpc, sleep: pause } = handler;
  try {
    if (exec !== undefined) {
      const { code, out, err } = await target.run(exec.command, timeoutMs);
      return code === 0 ? undefined : `${exec.command.join(" ")}: ${code} ${out}${err}`;
    }
    if (pause !== undefined) {
      await sleep(Math.min(pause.seconds * MS, timeoutMs));
      return undefined;
    }
    if (httpGet !== undefined) return await get(httpGet, target, timeoutMs);
    if (tcpSocket !== undefined) {
      const host = tcpSocket.host ?? target.address;
      return await reach(host, portOf(target.container, tcpSocket.port), timeoutMs);
    }
    if (grpc !== undefined) return await checkHealth(grpc, target, timeoutMs);
  } catch (error) {
    return String(error);
  }
  throw new Error(`this kubelet does not know ${Object.keys(handler).join()}`);
}

/**
 * Calls a probe until `signal` aborts, and tells each change of its result: passing after `successThreshold` passes,
 * failing after `failureThreshold` failures in a row.
 */
export async function watchProbe(
  probe: Probe,
  target: ProbeTarget,
  signal: AbortSignal,
  tell: (passes: boolean, reason: string) => void,
): Promise<void> {
  const { initialDelaySeconds = 0, periodSeconds = 10, timeoutSeconds = 1 } = probe;
  const { successThreshold = 1, failureThreshold = 3 } = probe;
  const pause = (seconds: number) => sleep(seconds * MS, undefined, { signal }).catch(() => {});
  await pause(initialDelaySeconds);
  let passed = 0;
  let failed = 0;
  while (!signal.aborted) {
    const reason = await callHandler(probe, target, timeoutSeconds * MS);
    if (signal.aborted) return;
    passed = reason === undefined ? passed + 1 : 0;
    failed = reason === undefined ? 0 : failed + 1;
    if (passed === successThreshold) tell(true, "");
    if (failed === failureThreshold) tell(false, reason ?? "");
    await pause(periodSeconds);
  }
}

function portOf({ name, ports = [] }: ContainerSpec, port: number | string): number {
  if (typeof port === "number") return port;
  const found = ports.find((each) => each.name === port)?.containerPort;
  if (found === undefined) throw new Error(`container ${name} has no port ${port}`);
  return found;
}

function get(
  { path = "/", port, scheme = "HTTP", host, httpHeaders = [] }: NonNullable<Handler["httpGet"]>,
  { container, address }: ProbeTarget,
  timeoutMs: number,
): Promise<string | undefined> {
  const options = {
    host: host ?? address,
    port: portOf(container, port),
    path,
    headers: Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value])),
    signal: AbortSignal.timeout(timeoutMs),
    rejectUnauthorized: false,
  };
  return new Promise((resolve, reject) => {
    const call = scheme === "HTTPS" ? https : http;
    const sent = call({ ...options, agent: false });
    sent.on("response", (response) => {
      const status = response.statusCode ?? 0;
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      response.on("error", reject);
      response.on("end", () =>
        resolve(status >= 200 && status < 400 ? undefined : `${path}: ${status} ${text}`),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

/** A call of grpc.health.v1.Health/Check: the name of the service is field 1, and the status is field 1 of the answer, 1 for SERVING. */
function checkHealth(
  { port, service = "" }: NonNullable<Handler["grpc"]>,
  { address }: ProbeTarget,
  timeoutMs: number,
): Promise<string | undefined> {
  const client = new Client(`${address}:${port}`, credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
  });
  const name = Buffer.from(service);
  const request = name.length === 0 ? name : Buffer.from([0x0a, name.length, ...name]);
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      "/grpc.health.v1.Health/Check",
      (bytes: Buffer) => bytes,
      (bytes) => bytes,
      request,
      { deadline: Date.now() + timeoutMs },
      (error, answer) => {
        client.close();
        const serves = answer?.equals(Buffer.from([0x08, 1])) === true;
        resolve(serves ? undefined : `${service}: ${error?.message ?? answer?.toString("hex")}`);
      },
    );
  });
}

function reach(host: string, port: number, timeoutMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, signal: AbortSignal.timeout(timeoutMs) });
    const end = (reason?: string) => {
      socket.destroy();
      resolve(reason);
    };
    socket.once("connect", () => end());
    socket.once("error", (error) => end(`${host}:${port}: ${error.message}`));
  });
}
