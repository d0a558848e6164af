// Alertmanager as a receiver of alerts: what is posted and where, and how its replies and failures are handled.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { until } from "../../kit/until.ts";
import { clientSettings, fakeServer } from "../../prometheus/kit.ts";
import { AT, alertmanager, alerts, named, names, type Post, posted, WRONG } from "./kit.ts";

/** The posts of the policy's own alert; the recording also has some of a status registry. */
const GOLDEN: { readonly posts: readonly { readonly path: string; readonly body: Post[] }[] } =
  JSON.parse(readFileSync("test/golden/control-api/alertmanager-posts.json", "utf8"));

test("the namespace of an alert is a label, which its own labels may replace", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock } = alerts(t, [alertmanager(server.url)]);
  all.fire(WRONG, "p", AT);
  all.fire({ ...named("own"), labels: new Map([["namespace", "shop"]]) }, "p", AT);
  clock.advance(1_000);
  await until("they are posted", () => server.heard.flatMap(posted).length === 2);
  const sent = server.heard.flatMap(posted);
  assert.deepEqual(
    sent.map(({ labels }) => labels["namespace"]),
    ["HOST", "shop"],
  );
  assert.deepEqual(
    sent.map(({ annotations }) => annotations),
    [{}, {}],
  );
});

test("an alert is posted as recorded, with every tick at which it fires", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock, counts } = alerts(t, [alertmanager(server.url, { base_path: "/api/v2" })]);
  const wanted = GOLDEN.posts.filter(({ body }) => body[0]?.labels["type"] === "alerter");
  assert.equal(wanted.length, 3);
  for (const [tick, { path, body }] of wanted.entries()) {
    const at = AT + tick * 1_000;
    all.fire(WRONG, "api-alert", at);
    clock.advance(1_000);
    await until("it is posted", () => counts()["sent"] === tick + 1);
    const [heard] = server.heard.slice(tick);
    assert.ok(heard !== undefined);
    assert.deepEqual([heard.method, heard.url], ["POST", path]);
    assert.equal(heard.headers["content-type"], "application/json");
    // The reference sends the namespace as an annotation, where no route of an Alertmanager can match it.
    const normal = posted(heard).map(({ labels: { namespace, ...labels }, ...alert }) => ({
      ...alert,
      labels,
      annotations: { ...alert.annotations, namespace: namespace?.replace("HOST", "<hostname>") },
      generatorURL: alert.generatorURL.replace("HOST", "<hostname>"),
      startsAt: alert.startsAt === new Date(at).toISOString() ? "<timestamp>" : alert.startsAt,
      endsAt: `<startsAt + ${((Date.parse(alert.endsAt) - at) / 1_000).toFixed(1)}s>`,
    }));
    assert.deepEqual(normal, body);
  }
});

test("channels and labels: an empty list of channels is an empty text, labels of the alert win, is_alert is fixed", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock } = alerts(t, [alertmanager(server.url)]);
  const labels = new Map([
    ["severity", "mine"],
    ["is_alert", "no"],
  ]);
  all.fire({ ...named("a%b?c#d\ne"), channels: [], labels, resolveMs: Infinity }, "p", AT);
  clock.advance(1_000);
  await until("it is posted", () => server.heard.length === 1);
  const [alert] = server.heard.flatMap(posted);
  assert.equal(alert?.labels["alert_channels"], "");
  assert.equal(alert?.labels["severity"], "mine");
  assert.equal(alert?.labels["is_alert"], "true");
  assert.equal(alert?.generatorURL, "http://HOST/p/a%25b%3Fc%23d%0Ae");
  assert.equal(alert?.endsAt, "9999-12-31T23:59:59.000Z");
});

test("addresses: the scheme is honoured, host:port works, the base path has a default", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const { cert, key } = ca.issue("server");
  const secure = await fakeServer(t, (_, reply) => reply.end(), { cert, key });
  const plain = await fakeServer(t, (_, reply) => reply.end());
  const tls = clientSettings({ tls: { ca_file: ca.certFile } });
  const { all, clock, counts } = alerts(t, [
    alertmanager(secure.url, { http_client: tls }),
    alertmanager(`127.0.0.1:${plain.port}`),
    alertmanager(plain.url, { base_path: "" }),
    alertmanager(`${plain.url}/am/`, { base_path: "/api/v2/" }),
    alertmanager(plain.url, { base_path: "own" }),
  ]);
  all.fire(WRONG, "p", AT);
  clock.advance(1_000);
  await until("all are posted", () => secure.heard.length === 1 && plain.heard.length === 4);
  assert.equal(secure.heard[0]?.url, "/api/v2/alerts");
  assert.deepEqual(plain.heard.map(({ url }) => url).sort(), [
    "/am/api/v2/alerts",
    "/api/v2/alerts",
    "/api/v2/alerts",
    "/own/alerts",
  ]);
  await until("and counted", () => counts(`127.0.0.1:${plain.port}`)["sent"] === 4);
  for (const address of ["", "ftp://x", "http://"]) {
    const made = () => alerts(t, [alertmanager(address, { name: "main" })]);
    assert.throws(made, /alertmanagers\.clients \(main\): address: wanted host:port/);
  }
});

test("a refused alert is isolated, the others of its batch arrive", async (t) => {
  const taken: string[] = [];
  const server = await fakeServer(t, (heard, reply) => {
    const given = posted(heard).map(({ labels }) => labels["alertname"] ?? "");
    const bad = given.some((name) => name.startsWith("bad"));
    if (!bad) taken.push(...given);
    reply.writeHead(bad ? 400 : 200).end();
  });
  const { all, clock, counts, lines } = alerts(t, [alertmanager(server.url, { name: "main" })]);
  for (let round = 1; round <= 2; round++) {
    for (const name of ["a", "b", "bad 1", "c", "d", "e", "bad 2"]) all.fire(named(name), "p", AT);
    clock.advance(1_000);
    await until(
      "all are settled",
      () => counts()["sent"] === 5 * round && counts()["refused"] === 2 * round,
    );
  }
  assert.deepEqual(taken, [..."abcde", ..."abcde"]);
  const lineOf = (name: string) =>
    `warn an Alertmanager refused an alert {"alertmanager":"main","alert":"${name}"}`;
  assert.deepEqual(lines, [lineOf("bad 1"), lineOf("bad 2")], "each is logged once");
});

test("failures are counted, logged once, and logged when over; nothing is sent again", async (t) => {
  let status = 503;
  const server = await fakeServer(t, (_, reply) => reply.writeHead(status).end());
  const address = `http://me:secret@127.0.0.1:${server.port}`;
  const { all, clock, counts, lines } = alerts(t, [alertmanager(address)]);
  const fire = async (name: string, ending: string, count: number) => {
    all.fire(named(name), "p", AT);
    clock.advance(1_000);
    await until(`${name} is ${ending}`, () => counts()[ending] === count);
  };
  await fire("a", "failed", 1);
  await fire("b", "failed", 2);
  status = 200;
  await fire("c", "sent", 1);
  assert.deepEqual(names(server.heard), [["a"], ["b"], ["c"]]);
  const name = `127.0.0.1:${server.port}`;
  assert.deepEqual(lines, [
    `warn cannot send alerts to an Alertmanager {"alertmanager":"${name}","why":"it responded with status 503"}`,
    `info sending alerts to an Alertmanager works again {"alertmanager":"${name}"}`,
  ]);
});

test("an unreachable Alertmanager", async (t) => {
  const { all, clock, counts, lines } = alerts(t, [alertmanager("127.0.0.1:1", { name: "gone" })]);
  all.fire(WRONG, "p", AT);
  clock.advance(1_000);
  await until("it is counted", () => counts()["failed"] === 1);
  assert.match(lines[0] ?? "", /connection refused/);
});
