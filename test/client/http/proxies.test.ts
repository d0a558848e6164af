// Proxies of the HTTP client: which calls go through one, and how.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { HttpClient } from "#client/http.ts";
import { fakeClock } from "../../kit/clock.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { caller, clientSettings, fakeProxy, fakeServer, NO_PROXY } from "../../prometheus/kit.ts";
import { deadPort, fails, hello } from "./setup.ts";

test("a percent sign that encodes nothing is part of the password, for servers and for proxies", async (t) => {
  const server = await fakeServer(t, hello);
  const proxy = await fakeProxy(t);
  for (const [written, meant] of [
    ["me:100%sure", Buffer.from("me:100%sure")],
    ["100%:%", Buffer.from("100%:%")],
    ["me:%2525%zz%4", Buffer.from("me:%25%zz%4")],
    ["m%C3%BC:ü%s", Buffer.from("mü:ü%s")],
    // Bytes that are not UTF-8 are sent unchanged.
    ["me:%e9", Buffer.from("me:\xe9", "latin1")],
  ] as const) {
    const basic = `Basic ${meant.toString("base64")}`;
    await caller(t).call({ method: "GET", url: `http://${written}@127.0.0.1:${server.port}/` });
    assert.equal(server.heard.at(-1)?.headers.authorization, basic, written);
    const uri = `http://${written}@127.0.0.1:${proxy.port}`;
    const http = caller(t, { use_proxy: true }, { proxy: { ...NO_PROXY, http: uri } });
    await http.call({ method: "GET", url: "http://metrics.example/" });
    assert.equal(proxy.heard.at(-1)?.headers["proxy-authorization"], basic, written);
  }
});

test("proxy: plain HTTP is forwarded, TLS is tunnelled, both with credentials", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { cert, key } = ca.issue("server");
  const secure = await fakeServer(t, hello, { cert, key });
  const proxy = await fakeProxy(t);
  const uri = `http://me:pass@127.0.0.1:${proxy.port}`;
  const over = {
    use_proxy: true,
    tls: { ca_file: ca.certFile },
    proxy_connect_header: { "X-Team": ["a", "b"] },
  };
  const http = caller(t, over, { proxy: { http: uri, https: uri, no_proxy: [] } });
  const plain = await http.call({ method: "GET", url: "http://metrics.example:9090/x?y=z" });
  const basic = `Basic ${Buffer.from("me:pass").toString("base64")}`;
  const wanted = `forwarded http://metrics.example:9090/x?y=z metrics.example:9090 ${basic}`;
  assert.equal(plain.body.toString(), wanted);
  for (let round = 0; round < 2; round++) {
    const reply = await http.call({ method: "GET", url: secure.url });
    assert.equal(reply.body.toString(), "hello");
  }
  assert.equal(secure.heard[0]?.headers["proxy-authorization"], undefined);
  assert.equal(proxy.tunnels.length, 1, "the tunnel is kept");
  assert.equal(proxy.tunnels[0]?.to, `127.0.0.1:${secure.port}`);
  assert.equal(proxy.tunnels[0]?.headers["proxy-authorization"], basic);
  assert.equal(proxy.tunnels[0]?.headers["x-team"], "a, b");
});

test("proxy: one that refuses, and one that is unreachable", async (t) => {
  const proxy = await fakeProxy(t, 407);
  const through = (port: number) =>
    caller(
      t,
      { use_proxy: true },
      { proxy: { http: "", https: `127.0.0.1:${port}`, no_proxy: [] } },
    ).call({ method: "GET", url: "https://metrics.example/" });
  await fails(through(proxy.port), "UNAVAILABLE", /proxy answered CONNECT with status 407/);
  await fails(through(await deadPort()), "UNAVAILABLE", /connection refused/);
});

test("proxy: any proxy setting overrides the environment; use_proxy false disables both", async (t) => {
  const [set, named] = [await fakeProxy(t), await fakeProxy(t)];
  const direct = await fakeServer(t, hello);
  const environment: Readonly<Record<string, string>> = {
    HTTP_PROXY: named.url,
    NO_PROXY: "a.example, 127.0.0.1",
  };
  const way = async (
    url: string,
    proxy: Partial<typeof NO_PROXY> = {},
    use_proxy = true,
    env = environment,
  ): Promise<string> => {
    const before = [set, named, direct].map(({ heard }) => heard.length);
    const options = { proxy: { ...NO_PROXY, ...proxy }, env };
    await caller(t, { use_proxy }, options).call({ method: "GET", url });
    const at = [set, named, direct].findIndex(({ heard }, at) => heard.length > (before[at] ?? 0));
    return ["settings", "environment", "direct"][at] ?? "none";
  };
  assert.equal(await way("http://b.example/"), "environment");
  assert.equal(await way("http://b.example/", { http: set.url }), "settings");
  assert.equal(await way("http://b.example/", {}, true, { http_proxy: named.url }), "environment");
  assert.equal(await way(`${direct.url}/`), "direct");
  assert.equal(await way(`${direct.url}/`, { http: set.url }), "settings");
  const bare = { HTTP_PROXY: named.url };
  assert.equal(await way(`${direct.url}/`, {}, true, bare), "environment");
  assert.equal(await way(`${direct.url}/`, { no_proxy: ["b.example"] }, true, bare), "direct");
  assert.equal(await way(`${direct.url}/`, { https: set.url }, true, bare), "direct");
  assert.equal(await way(`${direct.url}/`, {}, false), "direct");
});

test("no_proxy: host names, subdomains, addresses, ranges, ports, everything", async (t) => {
  const proxy = await fakeProxy(t);
  const direct = await fakeServer(t, hello);
  const { port } = direct;
  const seen = async (host: string, ...no_proxy: string[]) => {
    const options = { proxy: { http: proxy.url, https: "", no_proxy } };
    const url = `http://${host}:${port}/`;
    const call = caller(t, { use_proxy: true }, options).call({ method: "GET", url });
    // Not every machine resolves subdomains of localhost: a failed lookup also shows that no proxy was used.
    const body = await call.then(
      (reply) => reply.body.toString(),
      (fault: Fault) => fault.message.replace(/^.*: no such host$/, "hello"),
    );
    return body === "hello" ? "direct" : "proxy";
  };
  for (const [host, item, wanted] of [
    ["127.0.0.1", "127.0.0.1", "direct"],
    ["127.0.0.1", "127.0.0.0/8", "direct"],
    ["127.0.0.1", "10.0.0.0/8", "proxy"],
    ["127.0.0.1", `127.0.0.1:${port}`, "direct"],
    ["127.0.0.1", "127.0.0.1:1", "proxy"],
    ["127.0.0.1", "*", "direct"],
    ["localhost", "LOCALHOST", "direct"],
    ["localhost", `localhost:${port}`, "direct"],
    ["localhost", ".localhost", "proxy"],
    ["localhost", "host", "proxy"],
    ["a.localhost", "localhost", "direct"],
    ["a.localhost", ".localhost", "direct"],
    ["a.localhost", "*.localhost", "direct"],
    ["a.example", "xample", "proxy"],
    ["a.example", "::1", "proxy"],
  ] as const) {
    assert.equal(await seen(host, item), wanted, `${host} with ${item}`);
  }
});

test("a proxy address of another kind is refused by a message without the address", () => {
  const proxy = { http: "socks5://me:secret@proxy:1", https: "", no_proxy: [] };
  const options = {
    settings: clientSettings({ use_proxy: true }),
    key: "http_client",
    proxy,
    env: {},
    clock: fakeClock(),
  };
  assert.throws(
    () => new HttpClient(options),
    (thrown) =>
      thrown instanceof Fault &&
      /client\.proxy\.http: wanted host:port/.test(thrown.message) &&
      !/secret/.test(thrown.message),
  );
});
