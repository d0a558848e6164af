// Connections that pipeline requests share the turns of the event loop with others.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { until } from "../../../kit/until.ts";
import { openTestPort, route, text } from "../setup.ts";

const FLOODING = 40;
const PIPELINED = 50;
const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${more}\r\n`;

/** A port that notes the paths it was asked for, and a way to connect to it. */
async function open(t: TestContext) {
  const asked: string[] = [];
  const note = (path: string) =>
    route({
      path,
      handle: () => {
        asked.push(path);
        return text(path);
      },
    });
  const { url } = await openTestPort(t, [note("/flood"), note("/probe"), note("/begin")]);
  const port = Number(new URL(url).port);
  const dial = async (): Promise<Socket> => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    t.after(() => socket.destroy());
    await once(socket, "connect");
    return socket;
  };
  const count = (path: string) => asked.filter((each) => each === path).length;
  return { asked, dial, count };
}

test("a new connection is served long before a flood of pipelined requests ends", async (t) => {
  const { asked, dial, count } = await open(t);
  const flooding = await Promise.all(Array.from({ length: FLOODING }, dial));
  for (const socket of flooding) {
    socket.resume();
    socket.write(get("/begin"));
  }
  await until("all have begun", () => count("/begin") === FLOODING);
  for (const socket of flooding) socket.write(get("/flood").repeat(PIPELINED));
  const probe = await dial();
  probe.resume();
  probe.write(get("/probe"));
  await until(
    "all are served",
    () => count("/flood") === FLOODING * PIPELINED && count("/probe") === 1,
  );
  const before = asked.indexOf("/probe") - FLOODING;
  assert.ok(before < (FLOODING * PIPELINED) / 2, `${before} requests of the flood came first`);
});

test("pipelined requests that waited are answered in order, though their caller has closed its half", async (t) => {
  const { dial, count } = await open(t);
  const sockets = await Promise.all(Array.from({ length: FLOODING }, dial));
  const replies = sockets.map(async (socket) => {
    let received = "";
    for await (const chunk of socket) received += String(chunk);
    return received;
  });
  for (const socket of sockets) socket.write(get("/begin"));
  await until("all have begun", () => count("/begin") === FLOODING);
  for (const socket of sockets) {
    socket.end(get("/flood").repeat(PIPELINED) + get("/probe", "connection: close\r\n"));
  }
  for (const received of await Promise.all(replies)) {
    const bodies = [...received.matchAll(/\r\n\r\n(\/[a-z]+)/g)].map(([, body]) => body);
    assert.deepEqual(bodies, ["/begin", ...Array(PIPELINED).fill("/flood"), "/probe"]);
  }
});
