import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "#base/handler.ts";
import { profiles } from "#runtime/profiling/routes.ts";
import { info, version } from "#runtime/status/info.ts";
import { healthRoute, infoRoutes, statusRoutes } from "#runtime/status/routes.ts";
import { StatusNode, timestamp } from "#runtime/status/status.ts";
import { Metrics, metricsRoute } from "#telemetry/metrics/metrics.ts";
import { callRoute } from "../kit/clients/route.ts";
import { fakeClock } from "../kit/clock.ts";

const SILENT = { message: null, error: null, timestamp: null };

function tree() {
  const root = new StatusNode(fakeClock(0, 1_700_000_000_123.5));
  const [, route] = statusRoutes(root);
  return { root, ask: (path: string) => ask(route, path) };
}

async function ask(route: Route | undefined, path = "") {
  assert.ok(route);
  const reply = await callRoute(route, { params: { path } });
  assert.equal(reply.headers["content-type"], "application/json");
  return { code: reply.status, body: JSON.parse(String(reply.body)) };
}

test("a node shows itself and everything below it, sorted by name", async () => {
  const { root, ask } = tree();
  root.at("system", "readiness").at("component", "platform").ok("platform running");
  root.at("system", "readiness").at("component", "b").fail("not there");
  assert.deepEqual(await ask("system/readiness"), {
    code: 503,
    body: {
      status: SILENT,
      groups: {
        "component:b": {
          status: {
            message: null,
            error: { message: "not there" },
            timestamp: "2023-11-14T22:13:20.123500Z",
          },
          groups: {},
        },
        "component:platform": {
          status: {
            message: {
              "@type": "type.googleapis.com/google.protobuf.StringValue",
              value: "platform running",
            },
            error: null,
            timestamp: "2023-11-14T22:13:20.123500Z",
          },
          groups: {},
        },
      },
    },
  });
  assert.equal(root.firstError(), "system:readiness: component:b: not there");
});

test("an error counts for its node and those above it, not for others, and never for the root", async () => {
  const { root, ask } = tree();
  root.at("system", "liveness").at("job-group", "a").at("executor", "x").ok("OK");
  root.at("system", "liveness").at("job-group", "b").fail("broken");
  root.at("system", "readiness").ok("OK");
  const codes = async (...paths: string[]) =>
    Promise.all(paths.map(async (path) => (await ask(path)).code));
  assert.deepEqual(await codes("system/liveness", "system/liveness/job-group/b"), [503, 503]);
  assert.deepEqual(
    await codes(
      "system/liveness/job-group/a",
      "system/liveness/job-group/a/executor/x",
      "system/readiness",
      "",
      "system/readiness/",
    ),
    [200, 200, 200, 200, 200],
  );
  root.at("system", "liveness").at("job-group", "b").ok("again");
  assert.deepEqual(await codes("system/liveness"), [200]);
});

test("nodes below a failed node have a status of their own", async () => {
  const { root, ask } = tree();
  root.at("a", "1").fail("broken");
  root.at("a", "1").at("b", "2").ok("well");
  assert.equal((await ask("a/1/b/2")).code, 200);
});

test("unknown nodes and incomplete pairs are 404, and a query creates no nodes", async () => {
  const { root, ask } = tree();
  root.at("system", "liveness").ok("OK");
  for (const path of ["no/such", "odd", "system/liveness/x", "system/liveness/x/y", "__proto__/x"])
    assert.deepEqual(await ask(path), { code: 404, body: { status: null, groups: {} } }, path);
  assert.deepEqual(Object.keys(root.view().groups), ["system:liveness"]);
});

test("values may contain colons, and names of Object's own properties are ordinary names", () => {
  const { root } = tree();
  root.at("peer", "10.0.0.1:80").ok("a");
  root.at("peer:10.0.0.1", "80").ok("b");
  root.at("__proto__", "x").ok("c");
  const names = ["__proto__:x", "peer:10.0.0.1:80", "peer_10.0.0.1:80"];
  assert.deepEqual(Object.keys(root.view().groups), names);
  assert.equal(root.find("peer/10.0.0.1:80")?.view().status?.message?.value, "a");
  root.remove("peer", "10.0.0.1:80");
  assert.equal(root.find("peer/10.0.0.1:80"), undefined);
});

test("timestamps carry over into the next second", () => {
  assert.equal(timestamp(999.9999), "1970-01-01T00:00:01.000000Z");
  assert.equal(timestamp(1_500.25), "1970-01-01T00:00:01.500250Z");
});

test("info: the replies of the three routes", async () => {
  const clock = fakeClock(50, 1_700_000_000_000);
  const serviceInfo = info("sluice-agent", clock, "0b1c");
  const [first, second, third] = infoRoutes(serviceInfo);
  clock.advance(1_500);
  const shown = await ask(first);
  const members = ["version", "service", "build_host", "build_os", "build_time"];
  assert.deepEqual(Object.keys(shown.body), [...members, "git_branch", "git_commit_hash"]);
  assert.deepEqual([shown.body.version, shown.body.service], [version(), "sluice-agent"]);
  assert.match(version(), /^\d+\.\d+\.\d+/);
  assert.match(shown.body.git_commit_hash, /^(unknown|[0-9a-f]{40})$/);
  assert.deepEqual((await ask(second)).body, {
    start_time: "2023-11-14T22:13:20.000000Z",
    uptime: "1.500s",
    extensions: [],
  });
  const host = (await ask(third)).body;
  assert.equal(host.uuid, "0b1c");
  assert.ok(host.hostname.length > 0 && host.local_ip.length > 0);
});

test("healthz follows the state of the port", async () => {
  let serving = true;
  const route = healthRoute(() => serving);
  assert.deepEqual(await ask(route), { code: 200, body: { status: "SERVING" } });
  serving = false;
  assert.deepEqual(await ask(route), { code: 503, body: { status: "NOT_SERVING" } });
});

test("the routes fit the port's table", () => {
  const around = { service: "x", argv: [], clock: fakeClock() };
  const settings = { cpu_profiler: false, profiles_path: "default" };
  const rows: readonly Route[] = [
    healthRoute(() => true),
    ...statusRoutes(tree().root),
    ...infoRoutes(info("x", fakeClock(), "0b1c")),
    ...profiles(settings, around).routes,
    metricsRoute(
      new Metrics({ enable_go_metrics: false, enable_process_collector: false, pedantic: true }),
    ),
  ];
  assert.equal(new Set(rows.map(({ method, path }) => `${method} ${path}`)).size, rows.length);
  for (const { path } of rows) assert.match(path, /^\/[^ ]+$/);
});
