// Routing of JSON routes over both versions of HTTP: paths, methods, headers of replies, and what is counted.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "#base/handler.ts";
import { dial, exchange, testPort } from "../../kit/sluice/port.ts";
import { until } from "../../kit/until.ts";
import { openTestPort, overBothVersions, post, refusal, route, text } from "./setup.ts";

overBothVersions(
  "routes match literal paths, path segments and the rest of a path",
  async (_, serve) => {
    const show =
      (name: string): Route["handle"] =>
      ({ params, query, path }) =>
        text(`${name} ${JSON.stringify(params)} ${query.get("q")} ${path}`);
    const { ask } = await serve([
      route({ path: "/a/{name}/c", handle: show("one") }),
      route({ path: "/a/b/c", handle: show("literal") }),
      route({ path: "/s/{path...}", handle: show("rest") }),
      route({ path: "/p/{service}/{point}", handle: show("two") }),
      route({ path: "/p/{point}", handle: show("single") }),
    ]);
    const found = {
      "/a/b/c": "literal {} null /a/b/c",
      "/a/x%2Fy/c?q=1%20": 'one {"name":"x/y"} 1  /a/x%2Fy/c',
      "/s": 'rest {"path":""} null /s',
      "/s/": 'rest {"path":""} null /s/',
      "/s/b/%C3%A4": 'rest {"path":"b/ä"} null /s/b/%C3%A4',
      "/p/x": 'single {"point":"x"} null /p/x',
      "/p/x/y": 'two {"service":"x","point":"y"} null /p/x/y',
    };
    for (const [path, body] of Object.entries(found))
      assert.equal((await ask({ path })).body, body);
    for (const path of [
      "/a",
      "/a//c",
      "/a/b/c/",
      "/A/b/c",
      "/a/b/c/d",
      "/p/",
      "/a%2Fb%2Fc",
      "//s",
    ]) {
      assert.deepEqual(refusal(await ask({ path })), [404, 5, "Not Found"], path);
    }
    assert.deepEqual(refusal(await ask({ path: "/a/%ff/c" })).slice(0, 2), [400, 3]);
  },
);

test("rejects a route table with a duplicate, or with a rest parameter before the end", async (t) => {
  const twice = [route({ path: "/a" }), route({ path: "/a" })];
  await assert.rejects(testPort(t, { routes: twice }), /twice/);
  await assert.rejects(testPort(t, { routes: [route({ path: "/{a...}/b" })] }), /last/);
});

overBothVersions(
  "answers another method with 405 and the allowed ones; HEAD is allowed with GET",
  async (_, serve) => {
    const { ask } = await serve([post, route({ path: "/both" }), { ...post, path: "/both" }]);
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]) {
      const reply = await ask({ path: "/check", method });
      assert.equal(reply.headers["allow"], "POST");
      assert.equal(reply.status, 405);
      if (method !== "HEAD") assert.deepEqual(refusal(reply), [405, 12, "Method Not Allowed"]);
    }
    const both = await ask({ path: "/both", method: "PATCH" });
    assert.equal(both.headers["allow"], "GET, HEAD, POST");
    const head = await ask({ path: "/both", method: "HEAD" });
    assert.deepEqual([head.status, head.headers["content-length"], head.body], [200, "4", ""]);
  },
);

test("accepts the absolute request target of a proxy", async (t) => {
  const { port } = await openTestPort(t, [
    route({ path: "/here", handle: ({ query }) => text(`${query}`) }),
  ]);
  const reply = await exchange(
    dial(t, port),
    "GET http://any.host:80/here?x=1 HTTP/1.1\r\nhost: any.host\r\nconnection: close\r\n\r\n",
  );
  assert.match(reply, /^HTTP\/1\.1 200 .*\r\n\r\nx=1$/s);
  const asterisk = "OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  assert.match(
    await exchange(dial(t, port), asterisk),
    /^HTTP\/1\.1 404 /,
    "the asterisk form is not a path",
  );
});

overBothVersions(
  "headers set on the call are merged into those of the reply and take precedence",
  async (_, serve) => {
    const { ask } = await serve([
      route({
        path: "/",
        handle: (_, call) => {
          call.reply("x-said", call.header("x-ask") ?? "");
          call.trailer("x-last", call.peer);
          call.reply("content-type", "text/odd");
          return text("here", 201);
        },
      }),
    ]);
    const { status, headers } = await ask({ headers: { "x-ask": "who" } });
    const said = [headers["x-said"], headers["x-last"], headers["content-type"]];
    assert.deepEqual([status, ...said], [201, "who", "127.0.0.1", "text/odd"]);
  },
);

overBothVersions(
  "counts requests with their status, route pattern and fractional duration",
  async (_, serve) => {
    const { ask, counted } = await serve([route({ path: "/a/{name}" })]);
    await ask({ path: "/a/b" });
    await ask({ path: "/nowhere" });
    await until("count", () => counted.length === 2);
    assert.deepEqual(
      counted.map(({ method, status, route }) => [method, status, route]),
      [
        ["GET", 200, "/a/{name}"],
        ["GET", 404, ""],
      ],
    );
    assert.ok(counted.every(({ ms }) => ms > 0));
  },
);

overBothVersions("GET / lists the routes, unless the route table defines it", async (_, serve) => {
  const { ask } = await serve([{ ...post, about: "Asks for a decision" }]);
  const page = (await ask()).body;
  assert.match(page, /POST +\/check +Asks for a decision/);
  assert.match(page, /grpc\.health\.v1\.Health/);
  const own = await serve([route({ path: "/", handle: () => text("mine") })]);
  assert.equal((await own.ask()).body, "mine");
});
