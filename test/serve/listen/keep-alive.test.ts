// Checks TCP keep-alive by asking the kernel when it will probe an idle connection: Linux lists the timers of sockets
// in /proc.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { dial, testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";

const SOCKETS = "/proc/net/tcp";
const ESTABLISHED = "01";
const NO_TIMER = "00";
const KEEP_ALIVE_TIMER = "02";

/** The server's end of the only connection to `port`: its active timer, and the time until it fires. */
function serverSocket(port: number): { readonly timer: string; readonly ms: number } | undefined {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const line of readFileSync(SOCKETS, "utf8").split("\n")) {
    const fields = line.trim().split(/\s+/);
    if (!fields[1]?.endsWith(local) || fields[3] !== ESTABLISHED) continue;
    const [timer = "", hundredths = ""] = fields[5]?.split(":") ?? [];
    return { timer, ms: Number.parseInt(hundredths, 16) * 10 };
  }
  return undefined;
}

const system = () => Number(readFileSync("/proc/sys/net/ipv4/tcp_keepalive_time", "utf8")) * 1_000;

for (const [keep_alive, expected] of [
  [180_000, () => 180_000],
  [20_000, () => 20_000],
  // Rounded up to a whole second: 0 would mean the system default.
  [700, () => 1_000],
  [0, system],
] as const) {
  const skip = process.platform !== "linux";
  test(`probes idle connections after keep_alive: ${keep_alive}`, { skip }, async (t) => {
    const port = await testPort(t, { settings: { listener: { keep_alive } } });
    dial(t, port);
    const wanted = expected();
    let socket: ReturnType<typeof serverSocket>;
    await until("timer", () => {
      socket = serverSocket(port.port);
      return socket?.timer === KEEP_ALIVE_TIMER;
    });
    const ms = socket?.ms ?? 0;
    assert.ok(ms <= wanted && ms > wanted - Math.min(wanted, 10_000), `${ms} of ${wanted} ms`);
  });
}

test("probes no connection when keep_alive is negative", {
  skip: process.platform !== "linux",
}, async (t) => {
  const port = await testPort(t, { settings: { listener: { keep_alive: -1 } } });
  const socket = dial(t, port);
  let answered = false;
  socket.once("data", () => {
    answered = true;
  });
  socket.write("GET /none HTTP/1.1\r\nhost: x\r\n\r\n");
  // After its reply the port has configured the socket, and no unacknowledged data is in flight.
  await until("answer", () => answered);
  await until("quiet", () => serverSocket(port.port)?.timer !== "01");
  assert.equal(serverSocket(port.port)?.timer, NO_TIMER);
});
