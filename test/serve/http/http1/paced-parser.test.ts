// Connections that pipeline requests share the turns of the event loop with others.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { until } from "../../../kit/until.ts";
import { openTestPort, route, text } from "../setup.ts";

const FLOODING = 40;
const PIPELINED = 50;
/** Requests whose replies are more than sockets hold. */
const MANY = 4_000;
const LONG = "x".repeat(8_192);
const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${more}\r\n`;

/** A port that notes the paths it was asked for, and a way to connect to it. */
async function open(t: TestContext) {
  const asked: string[] = [];
  const note = (path: string) =>
    route({
      path,
      handle: () => {
        asked.push(path);
        return text(path === "/long" ? LONG : path);
      },
    });
  const paths = ["/flood", "/probe", "/begin", "/long"];
  const { url } = await openTestPort(t, paths.map(note));
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

/** Resolves when a count has stayed the same for a hundred turns of the event loop and some time for the sockets. */
async function settled(count: () => number): Promise<void> {
  for (let before = -1; before !== count(); ) {
    before = count();
    for (let turn = 0; turn < 100; turn++) await new Promise((done) => setTimeout(done, 1));
  }
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

test("a new connection is served long before those end that begin with a flood", async (t) => {
  const { asked, dial, count } = await open(t);
  const sockets = await Promise.all(Array.from({ length: FLOODING + 1 }, dial));
  const probe = sockets.pop();
  for (const socket of sockets) {
    socket.resume();
    // One read, of which a few requests are handled at once.
    socket.write(get("/flood").repeat(10 * PIPELINED));
  }
  probe?.resume();
  probe?.write(get("/probe"));
  await until(
    "all are served",
    () => count("/flood") === FLOODING * 10 * PIPELINED && count("/probe") === 1,
  );
  const before = asked.indexOf("/probe");
  assert.ok(before < FLOODING * 5 * PIPELINED, `${before} requests of the flood came first`);
});

test("a connection whose caller reads no replies waits with the rest of what it sent, and others do not", async (t) => {
  const { dial, count } = await open(t);
  const [silent, other] = [await dial(), await dial()];
  const requests = get("/long").repeat(MANY);
  silent.write(requests);
  silent.pause();
  await settled(() => count("/long"));
  const parsed = count("/long");
  assert.ok(parsed < MANY, "Node's server stops reading where replies are not read");
  other.resume();
  other.write(get("/probe"));
  await until("the other is served", () => count("/probe") === 1);
  assert.equal(count("/long"), parsed);
  silent.resume();
  await until("all are served", () => count("/long") === MANY);
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
