// A directory of policies as a person works with it: edits, mistakes, removals, all while traffic flows.

import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { call, passes } from "../kit/check.ts";
import { folderOf } from "../kit/folder.ts";
import { until } from "../kit/port.ts";
import { standalone, standaloneProcess } from "../kit/standalone.ts";

interface Limit {
  readonly capacity: number;
  readonly fill?: number;
  readonly before?: string;
}

/** A bucket per user at control point `shop`, refilled per hour unless told. */
function perUser({ capacity, fill = 0, before = "" }: Limit): string {
  return `circuit:
  components:${before}
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${capacity} } }
            fill_amount: { constant_signal: { value: ${fill} } }
          parameters: { interval: 1s, limit_by_label_key: http.request.header.user }
`;
}

/** Another component in front, so that the limiter gets another id and the policy another hash. */
const INSERTED = `
    - flow_control:
        sampler:
          in_ports: { accept_percentage: { constant_signal: { value: 100 } } }
          parameters: { selectors: [{ control_point: shop }] }`;

/** Sends until stopped; counts what passed. */
function load(address: string, headers: Readonly<Record<string, string>>) {
  let stopped = false;
  let passed = 0;
  let sent = 0;
  const done = (async () => {
    while (!stopped) {
      if (await passes(address, "shop", headers)) passed += 1;
      sent += 1;
    }
  })();
  return {
    counts: () => ({ passed, sent }),
    async stop() {
      stopped = true;
      await done;
      return { passed, sent };
    },
  };
}

test("a good edit is in force within a second, under load, and no bucket moves", async (t) => {
  const { address, policies } = await standalone(t, {
    policies: { "limits.yaml": perUser({ capacity: 5, fill: 2 }) },
  });
  const began = performance.now();
  const traffic = load(address, { user: "ann" });
  await until("the bucket is empty", () => traffic.counts().sent > 20);
  const edits = [
    perUser({ capacity: 5, fill: 2, before: INSERTED }),
    perUser({ capacity: 5, fill: 2 }),
    `# a comment changes nothing\n${perUser({ capacity: 5, fill: 2 })}`,
  ];
  for (const [turn, edit] of edits.entries()) {
    writeFileSync(join(policies, "limits.yaml"), edit);
    writeFileSync(join(policies, "probe.yaml"), closedAt(`probe-${turn}`));
    const edited = performance.now();
    await until("the edit is in force", async () => !(await passes(address, `probe-${turn}`)));
    const took = performance.now() - edited;
    assert.ok(took < 1_000, `an edit took ${took} ms`);
  }
  const { passed } = await traffic.stop();
  const most = 5 + (2 * (performance.now() - began)) / 1_000;
  assert.ok(passed >= 5 && passed <= most, `${passed} passed, at most ${most} may`);
});

/** Refuses everything at a control point: shows that an edit has arrived. */
function closedAt(controlPoint: string): string {
  return `circuit:
  components:
    - flow_control:
        concurrency_limiter:
          selectors: [{ control_point: ${controlPoint} }]
          in_ports: { max_concurrency: { constant_signal: { value: 0 } } }
          parameters: { max_inflight_duration: 1s }
`;
}

test("a bad edit leaves the old plan running and shows in log, status and metric", async (t) => {
  const { address, policies, child } = await standaloneProcess(t, {
    policies: { "limits.yaml": perUser({ capacity: 2 }), "other.yaml": closedAt("other") },
  });
  assert.equal(await passes(address, "shop", { user: "ann" }), true);
  writeFileSync(
    join(policies, "limits.yaml"),
    perUser({ capacity: 99 }).replace("interval", "intervall"),
  );
  await child.until("the log tells", () => child.err().includes("intervall"));
  assert.match(child.err(), /limits\.yaml:\d+:\d+: circuit\.components\[0\]/);
  const status = await call(address, "GET", "/v1/status/system/policies");
  assert.equal(status.status, 503);
  assert.match(status.body, /limits\.yaml/);
  const ready = await call(address, "GET", "/v1/status/system/readiness");
  assert.equal(ready.status, 200, "the agent goes on serving by the old plan");
  const { body: metrics } = await call(address, "GET", "/metrics");
  assert.match(metrics, /sluice_policy_reload_total\{result="failure"\} 1/);
  assert.match(metrics, /sluice_policies\{state="refused"\} 1/);
  assert.equal(await passes(address, "shop", { user: "ann" }), true);
  assert.equal(await passes(address, "shop", { user: "ann" }), false, "still a bucket of two");
  assert.equal(await passes(address, "other"), false, "the policy beside it still holds");
  writeFileSync(join(policies, "limits.yaml"), perUser({ capacity: 2 }));
  await until("the status is well again", async () => {
    return (await call(address, "GET", "/v1/status/system/policies")).status === 200;
  });
});

test("a removed document takes its rules away, and those of others stay", async (t) => {
  const { address, policies } = await standalone(t, {
    policies: {
      "a.yaml": closedAt("a"),
      "b.json": JSON.stringify({ circuit: { components: [] } }),
      "c.yml": closedAt("c"),
    },
  });
  assert.deepEqual([await passes(address, "a"), await passes(address, "c")], [false, false]);
  rmSync(join(policies, "a.yaml"));
  await until("the rules of a are gone", () => passes(address, "a"));
  assert.equal(await passes(address, "c"), false);
});

test("a directory whose files are swapped behind a link is followed", async (t) => {
  const root = folderOf(t);
  const version = (name: string, text: string) => {
    mkdirSync(join(root, name));
    writeFileSync(join(root, name, "p.yaml"), text);
  };
  version("..v1", closedAt("one"));
  version("..v2", closedAt("two"));
  const { address, policies } = await standalone(t, { policies: {} });
  symlinkSync(join(root, "..v1"), join(root, "..data"));
  symlinkSync(join(root, "..data/p.yaml"), join(policies, "p.yaml"));
  await until("the first version is in force", async () => !(await passes(address, "one")));
  symlinkSync(join(root, "..v2"), join(root, "..next"));
  renameSync(join(root, "..next"), join(root, "..data"));
  await until("the second version is in force", async () => !(await passes(address, "two")));
  assert.equal(await passes(address, "one"), true);
});

test("numbers that the controller takes away at the end leave with it, no handle stays", async (t) => {
  const { agent } = await standalone(t, { policies: { "a.yaml": closedAt("a") } });
  assert.equal(agent.book.rules.size, 1);
});
