// The log lines of an outage that several parts of a controller notice, and the client that they share.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import { ApiServer, type ClusterPart } from "#kube/api/api-server.ts";
import { fakeClock } from "../../kit/clock.ts";
import { accessTo } from "../../kit/kube/fake-api.ts";
import { fakeScales } from "../../kit/kube/fake-scales.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { memoryLog } from "../../kit/sluice/log.ts";

const PODS: ClusterPart = { fails: "pods are not followed", works: "pods are followed again" };
const SCALING: ClusterPart = { fails: "scaling fails", works: "scaling works again" };
const AWAY = new Fault("UNAVAILABLE", "GET /api/v1/services: ECONNREFUSED");
const LATE = new Fault("DEADLINE_EXCEEDED", "watch /api/v1/services: no reply within 10 s");
const STARTING = new Fault("RESOURCE_EXHAUSTED", "status 429: storage is (re)initializing");
const FORBIDDEN = new Fault("PERMISSION_DENIED", "cannot list services");

function setting(env: Readonly<Record<string, string>> = {}) {
  const log = memoryLog();
  const { config } = configOf("controller");
  const { http_client: settings } = config.kubernetes_client;
  const { proxy } = config.client;
  const apiServer = new ApiServer({ settings, proxy, env, clock: fakeClock(), log });
  const lines = () => log.lines.map(({ level, message }) => `${level} ${message}`);
  return { apiServer, lines };
}

test("an outage that all parts notice is one line, however the fault changes, and so is its end", () => {
  const { apiServer, lines } = setting();
  const away =
    "warn the API server is away, and the last known state stays in use: GET /api/v1/services: ECONNREFUSED";
  apiServer.report(PODS, undefined);
  assert.deepEqual(lines(), []);
  for (const fault of [AWAY, LATE, STARTING, AWAY])
    for (const part of [PODS, SCALING]) apiServer.report(part, fault);
  assert.deepEqual(lines(), [away]);
  apiServer.report(PODS, undefined);
  assert.deepEqual(lines(), [away], "scaling still waits for it");
  apiServer.report(SCALING, undefined);
  const again = "info the API server answers again";
  assert.deepEqual(lines(), [away, again]);
  apiServer.report(SCALING, AWAY);
  assert.deepEqual(lines(), [away, again, away], "another outage");
  apiServer.forget(SCALING);
  apiServer.report(PODS, AWAY);
  assert.equal(lines().length, 4, "a part that has ended waits for nothing");
});

test("what only one part may not do is said for that part", () => {
  const { apiServer, lines } = setting();
  apiServer.report(PODS, STARTING);
  apiServer.report(PODS, undefined);
  apiServer.report(PODS, FORBIDDEN);
  apiServer.report(PODS, FORBIDDEN);
  apiServer.report(SCALING, AWAY);
  apiServer.report(SCALING, FORBIDDEN);
  apiServer.report(PODS, undefined);
  apiServer.report(SCALING, undefined);
  assert.deepEqual(lines(), [
    "warn pods are not followed: status 429: storage is (re)initializing",
    "info pods are followed again",
    "warn pods are not followed: cannot list services",
    "warn the API server is away, and the last known state stays in use: GET /api/v1/services: ECONNREFUSED",
    "warn scaling fails: cannot list services",
    "info the API server answers again",
    "info pods are followed again",
    "info scaling works again",
  ]);
});

test("all parts have one client, which is asked for again where there was none", async (t) => {
  const { api } = await fakeScales(t);
  const env: Record<string, string> = {};
  const { apiServer } = setting(env);
  await assert.rejects(apiServer.client(), /wanted a Kubernetes API server/);
  Object.assign(env, accessTo(t, api));
  const [one, other] = await Promise.all([apiServer.client(), apiServer.client()]);
  assert.equal(one, other);
  assert.equal(await apiServer.client(), one);
  await apiServer.close();
  await assert.rejects(one.read("/version"));
});
