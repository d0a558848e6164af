// Events about objects: what is written, and what a flood of them costs the API server.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { EventRecorder, type EventSubject } from "#kube/api/events.ts";
import { fakeClock } from "../../kit/clock.ts";
import { clientOf, fakeApi } from "../../kit/kube/fake-api.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";

const SUBJECT: EventSubject = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  namespace: "shop",
  name: "api",
  uid: "1",
};

async function setting(t: TestContext) {
  const api = await fakeApi(t);
  // biome-ignore lint/suspicious/noExplicitAny: events, whose fields a test names
  const written: any[] = [];
  let refused: string | undefined;
  api.before = ({ path, body, reply }) => {
    assert.equal(path, "/apis/events.k8s.io/v1/namespaces/shop/events");
    if (refused !== undefined) reply(403, { kind: "Status", message: refused });
    else {
      written.push(JSON.parse(body));
      reply(201, JSON.parse(body));
    }
    return true;
  };
  const clock = fakeClock();
  const log = memoryLog();
  const recorder = new EventRecorder({ client: clientOf(t, api, { clock }), clock, log });
  t.after(() => recorder.close());
  const record = (reason: string, note: string, subject = SUBJECT) =>
    recorder.record(subject, { type: "Normal", reason, note });
  const count = (wanted: number) =>
    until(`${wanted} are written`, () => written.length >= wanted).then(() =>
      assert.equal(written.length, wanted),
    );
  const refuse = (message: string | undefined) => {
    refused = message;
  };
  return { api, written, clock, log, record, count, refuse };
}

test("an event names its object, its reason and who says it", async (t) => {
  const { written, clock, record, count } = await setting(t);
  record("Scaled", "n".repeat(2_000));
  await count(1);
  const [{ metadata, note, ...event }] = written;
  assert.match(metadata.name, /^api\.[0-9a-f]{16}$/);
  assert.equal(metadata.namespace, "shop");
  assert.equal(note.length, 1_024);
  assert.deepEqual(event, {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    eventTime: new Date(clock.wall()).toISOString().replace("Z", "000Z"),
    reportingController: "sluice-controller",
    reportingInstance: "sluice-controller",
    action: "Scaled",
    type: "Normal",
    reason: "Scaled",
    regarding: SUBJECT,
  });
});

test("an object gets no event twice in a row, and twenty in ten minutes at most", async (t) => {
  const { clock, record, count } = await setting(t);
  for (let at = 0; at < 50; at++) record("Scaled", "the same");
  await count(1);
  for (let at = 0; at < 50; at++) record(at % 2 === 0 ? "NotScaled" : "Scaled", "in turns");
  await count(20);
  record("Scaled", "of another object", { ...SUBJECT, uid: "2" });
  await count(21);
  clock.advance(600_000);
  record("Scaled", "in turns");
  await count(22);
});

test("events that are refused are dropped, which the log says once for each reason", async (t) => {
  const { api, log, record, count, refuse } = await setting(t);
  refuse("events is forbidden");
  record("Scaled", "one");
  record("Scaled", "two");
  await until("both were tried", () => api.asked.length === 2);
  refuse(undefined);
  record("Scaled", "three");
  await count(1);
  const [line, ...more] = log.lines;
  assert.match(line?.message ?? "", /^an event was not written, .*events is forbidden/);
  assert.deepEqual(more, []);
});

test("while one write is under way at most five hundred wait", async (t) => {
  const { api, record, count } = await setting(t);
  const { before } = api;
  const held: (() => void)[] = [];
  api.before = (asked) => {
    if (api.asked.length > 1) return before(asked);
    held.push(() => before(asked));
    return true;
  };
  record("Scaled", "first", { ...SUBJECT, uid: "first" });
  await until("it is under way", () => held.length === 1);
  for (let at = 0; at < 600; at++) record("Scaled", "one", { ...SUBJECT, uid: `${at}` });
  for (const go of held) go();
  await count(501);
});
