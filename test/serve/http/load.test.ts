// Costly routes take turns, and unread replies are bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_BUFFERED_TOTAL } from "#h2/limits.ts";
import { http2 } from "../../kit/clients/http.ts";
import { dial, exchange } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import { openTestPort, route, text, VERSIONS } from "./setup.ts";

for (const { name } of VERSIONS) {
  test(`costly requests take turns, too many are refused, and other requests wait for one at most (${name})`, async (t) => {
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
    const { port, url, counted } = await openTestPort(t, [costly, quick]);
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
    assert.equal(count(200) + count(503), many + 2);
    // One more for each turn over which the burst is spread, because the place of the one that runs is free again. How
    // many turns that are depends on the machine.
    assert.ok(count(200) >= 102 && count(200) < many / 2, `${count(200)} were answered`);
    assert.ok(before > 0 && before < 50, `answered after ${before} of ${begun} costly requests`);
  });
}

test("limits the total size of unread replies, but still sends small ones", async (t) => {
  const bytes = 8 * 1024 * 1024;
  let asked = 0;
  const handle = () => {
    asked++;
    return text("x".repeat(bytes));
  };
  const large = route({ path: "/large", handle });
  const { port, counted } = await openTestPort(t, [large, route({ path: "/small" })], {
    write_timeout: 60_000,
  });
  const notReading = Array.from({ length: 4 }, () => dial(t, port).pause());
  for (const socket of notReading) socket.write("GET /large HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5));
  await until("all have been asked for", () => asked === 20);
  const other = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  assert.match(await exchange(dial(t, port), `GET /large ${other}`), /^HTTP\/1\.1 503 /);
  assert.match(await exchange(dial(t, port), `GET /small ${other}`), /^HTTP\/1\.1 200 /);
  for (const socket of notReading) socket.destroy();
  await until("all ended", () => counted.length === 22);
  const count = (status: number) => counted.filter((each) => each.status === status).length;
  assert.deepEqual([count(200), count(503)], [MAX_BUFFERED_TOTAL / bytes + 1, 13]);
  assert.match(await exchange(dial(t, port), `GET /large ${other}`), /^HTTP\/1\.1 200 /);
});

test("a reply of many flow-control windows arrives complete (HTTP/2)", async (t) => {
  const body = Buffer.from("0123456789abcdefg".repeat(700_000));
  const big = route({ path: "/", handle: () => ({ status: 200, headers: {}, body }) });
  const { ask } = await openTestPort(t, [big], {}, VERSIONS[1]);
  const replies = await Promise.all([ask(), ask(), ask()]);
  for (const reply of replies) assert.ok(reply.body === body.toString());
});
