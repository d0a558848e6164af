// Alerts on their way: what is posted, to whom, when, and what becomes of those that cannot be.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import type { Alert } from "#circuit/component.ts";
import { type AlertmanagerSettings, Alerts, type AlertsOptions } from "#telemetry/alertmanager.ts";
import { fakeClock } from "../kit/clock.ts";
import { until } from "../kit/port.ts";
import { authority, temporaryFolder } from "../kit/tls.ts";
import { clientSettings, fakeServer, type Heard, NO_PROXY } from "../prometheus/kit.ts";

const AT = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

const WRONG: Alert = {
  componentId: "root.1",
  name: "Something is wrong",
  severity: "crit",
  resolveMs: 30_000,
  channels: ["ops", "dev"],
  labels: new Map([["team", "a"]]),
};

function named(name: string): Alert {
  return { ...WRONG, name };
}

function alertmanager(
  address: string,
  over: Partial<AlertmanagerSettings> = {},
): AlertmanagerSettings {
  return { name: "", address, base_path: "/", http_client: clientSettings(), ...over };
}

function alerts(
  t: TestContext,
  clients: readonly AlertmanagerSettings[],
  over: Partial<AlertsOptions> = {},
) {
  const clock = fakeClock(1_000, AT);
  const lines: string[] = [];
  const line =
    (level: string) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
    };
  const all = new Alerts({
    ...{ clients, clock, proxy: NO_PROXY, env: {}, hostname: "HOST", channel_size: 100 },
    batch: { send_batch_max_size: 100, send_batch_size: 100, timeout: 1_000 },
    log: { info: line("info"), warn: line("warn") },
    ...over,
  });
  t.after(() => all.close());
  const counts = (only?: string): Readonly<Record<string, number>> => {
    const found: Record<string, number> = {};
    all.collect({
      number: (metric, [name, ending], count) => {
        assert.equal(metric, "sluice_alerts_total");
        if (count > 0 && (only ?? name) === name) found[`${ending}`] = count;
      },
      buckets: () => assert.fail(),
      summary: () => assert.fail(),
    });
    return found;
  };
  return { all, clock, lines, counts };
}

interface Post {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: string;
  readonly endsAt: string;
  readonly generatorURL: string;
}

function posted({ body }: Heard): readonly Post[] {
  return JSON.parse(body);
}

function names(heard: readonly Heard[]): readonly (readonly string[])[] {
  return heard.map((each) => posted(each).map(({ labels }) => labels["alertname"] ?? ""));
}

/** The posts of the policy's own alert; the recording also has some of a status registry. */
const GOLDEN: { readonly posts: readonly { readonly path: string; readonly body: Post[] }[] } =
  JSON.parse(readFileSync("test/golden/control-api/alertmanager-posts.json", "utf8"));

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
    const normal = posted(heard).map((alert) => ({
      ...alert,
      annotations: { namespace: alert.annotations["namespace"]?.replace("HOST", "<hostname>") },
      generatorURL: alert.generatorURL.replace("HOST", "<hostname>"),
      startsAt: alert.startsAt === new Date(at).toISOString() ? "<timestamp>" : alert.startsAt,
      endsAt: `<startsAt + ${((Date.parse(alert.endsAt) - at) / 1_000).toFixed(1)}s>`,
    }));
    assert.deepEqual(normal, body);
  }
});

test("channels and labels: none is empty, own ones win, is_alert does not bend", async (t) => {
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

test("addresses: scheme honoured, host:port, the base path and its default", async (t) => {
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

test("batches: after their time, when they are full, cut at their largest size", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const batch = { send_batch_max_size: 3, send_batch_size: 2, timeout: 1_000 };
  const { all, clock, counts } = alerts(t, [alertmanager(server.url)], { batch });
  all.fire(named("a"), "p", AT);
  clock.advance(999);
  assert.deepEqual(counts(), {});
  clock.advance(1);
  await until("a", () => counts()["sent"] === 1);
  for (const name of ["b", "c"]) all.fire(named(name), "p", AT);
  for (const name of ["d", "e", "f", "g"]) all.fire(named(name), "p", AT);
  await until("b c, then what came meanwhile", () => counts()["sent"] === 6);
  clock.advance(1_000);
  await until("the rest", () => counts()["sent"] === 7);
  assert.deepEqual(names(server.heard), [["a"], ["b", "c"], ["d", "e", "f"], ["g"]]);
  assert.equal(clock.alarms, 0);
});

test("an alert that fires again while it waits is one that lasts longer", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock } = alerts(t, [alertmanager(server.url)]);
  for (let tick = 0; tick < 5; tick++) all.fire(WRONG, "p", AT + tick * 100);
  all.fire(WRONG, "q", AT);
  clock.advance(1_000);
  await until("it is posted", () => server.heard.length === 1);
  const [first, ...others] = server.heard.flatMap(posted);
  assert.equal(others.length, 1);
  assert.equal(first?.startsAt, new Date(AT).toISOString());
  assert.equal(first?.endsAt, new Date(AT + 400 + 30_000).toISOString());
});

test("a stuck Alertmanager keeps nothing from another; the oldest give way", async (t) => {
  const stuck = await fakeServer(t, () => undefined);
  const well = await fakeServer(t, (_, reply) => reply.end());
  const { all, clock, counts } = alerts(
    t,
    [alertmanager(stuck.url, { name: "stuck" }), alertmanager(well.url, { name: "well" })],
    { channel_size: 3 },
  );
  all.fire(named("first"), "p", AT);
  clock.advance(1_000);
  await until("the first is under way", () => stuck.heard.length === 1);
  // Else the next would come while it is busy, and wait for a time that nobody lets pass.
  await until("the other one has it", () => counts("well")["sent"] === 1);
  for (let at = 0; at < 8; at++) {
    all.fire(named(`${at}`), "p", AT);
    clock.advance(1_000);
    await until("the other one has it", () => counts("well")["sent"] === at + 2);
  }
  assert.deepEqual(counts("stuck"), { dropped: 5 });
  assert.equal(stuck.heard.length, 1);
  clock.advance(60_000);
  await until("the first is given up", () => counts("stuck")["failed"] === 1);
  clock.advance(1_000);
  await until("the next are under way", () => stuck.heard.length === 2);
  assert.deepEqual(names(stuck.heard), [["first"], ["5", "6", "7"]]);
});

test("one that is refused goes alone, the others of its batch arrive", async (t) => {
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
  const told = (name: string) =>
    `warn an Alertmanager does not take an alert {"alertmanager":"main","alert":"${name}"}`;
  assert.deepEqual(lines, [told("bad 1"), told("bad 2")], "each is told of once");
});

test("failures are counted, told once, and told when over; nothing is sent again", async (t) => {
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
    `warn alerts do not reach an Alertmanager {"alertmanager":"${name}","why":"it answered with status 503"}`,
    `info alerts reach an Alertmanager again {"alertmanager":"${name}"}`,
  ]);
});

test("an Alertmanager that is gone", async (t) => {
  const { all, clock, counts, lines } = alerts(t, [alertmanager("127.0.0.1:1", { name: "gone" })]);
  all.fire(WRONG, "p", AT);
  clock.advance(1_000);
  await until("it is counted", () => counts()["failed"] === 1);
  assert.match(lines[0] ?? "", /connection refused/);
});

test("close sends what waits, and waits for nothing that is stuck", async (t) => {
  const server = await fakeServer(t, (_, reply) => reply.end());
  const batch = { send_batch_max_size: 2, send_batch_size: 0, timeout: 1_000 };
  const well = alerts(t, [alertmanager(server.url)], { batch });
  for (const name of ["a", "b", "c"]) well.all.fire(named(name), "p", AT);
  await well.all.close();
  well.all.fire(WRONG, "p", AT);
  assert.deepEqual(names(server.heard), [["a", "b"], ["c"]]);
  assert.deepEqual([well.counts(), well.clock.alarms], [{ sent: 3 }, 0]);

  const mute = await fakeServer(t, () => undefined);
  const stuck = alerts(t, [alertmanager(mute.url)]);
  stuck.all.fire(WRONG, "p", AT);
  stuck.clock.advance(1_000);
  await until("it is under way", () => mute.heard.length === 1);
  stuck.all.fire(named("another"), "p", AT);
  const closed = stuck.all.close();
  stuck.clock.advance(2_000);
  await closed;
  assert.deepEqual([mute.heard.length, stuck.clock.alarms], [1, 0]);
  assert.deepEqual(stuck.counts(), { failed: 1, dropped: 1 });
});
