// A directory of policies as a person works with it: edits, mistakes, removals, all while traffic flows.

import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folderOf } from "../kit/folder.ts";
import { call, passes } from "../kit/sluice/check.ts";
import { underLoad } from "../kit/sluice/load.ts";
import { standalone, standaloneProcess } from "../kit/sluice/standalone.ts";
import { until } from "../kit/until.ts";

interface Limit {
  readonly capacity: number;
  readonly fill?: number;
  readonly before?: string;
}

/** A bucket per user at control point `shop`; it gets `fill` tokens a second, none unless told. */
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

/** A bucket of two that gets nothing, for one user. */
const bucketOf = (user: string, { capacity = 2, fill = 0 } = {}) => ({
  controlPoint: "shop",
  headers: { user },
  capacity,
  fill,
});

test("a valid edit comes into force under load and changes no bucket", async (t) => {
  const limit = { capacity: 5, fill: 2 };
  const { address, policies } = await standalone(t, {
    policies: { "limits.yaml": perUser(limit) },
  });
  const edits = [
    perUser({ ...limit, before: INSERTED }),
    perUser(limit),
    `# a comment changes nothing\n${perUser(limit)}`,
  ];
  await underLoad(address, bucketOf("ann", limit), async () => {
    for (const [at, edit] of edits.entries()) {
      writeFileSync(join(policies, "limits.yaml"), edit);
      writeFileSync(join(policies, "probe.yaml"), closedAt(`probe-${at}`));
      await until("the edit is in force", async () => !(await passes(address, `probe-${at}`)));
    }
  });
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

test("an invalid edit leaves the old plan in force and shows in log, status and metrics", async (t) => {
  const { address, policies, child } = await standaloneProcess(t, {
    policies: { "limits.yaml": perUser({ capacity: 2 }), "other.yaml": closedAt("other") },
  });
  const bad = perUser({ capacity: 99 }).replace("interval", "intervall");
  const statusOf = () => call(address, "GET", "/v1/status/system/policies");
  const metric = async (line: RegExp) =>
    assert.match((await call(address, "GET", "/metrics")).body, line);
  await underLoad(address, bucketOf("ann"), async () => {
    writeFileSync(join(policies, "limits.yaml"), bad);
    await child.until("the log tells", () => child.err().includes("intervall"));
    assert.match(child.err(), /limits\.yaml:\d+:\d+: circuit\.components\[0\]/);
    const status = await statusOf();
    assert.equal(status.status, 503);
    assert.match(status.body, /limits\.yaml/);
    const ready = await call(address, "GET", "/v1/status/system/readiness");
    assert.equal(ready.status, 200, "the agent goes on serving by the old plan");
    await metric(/sluice_policy_reload_total\{result="failure"\} 1/);
    await metric(/sluice_policies\{state="refused"\} 1/);
    assert.equal(await passes(address, "other"), false, "the policy beside it still holds");
  });
  await underLoad(address, bucketOf("bob"), async () => {
    writeFileSync(join(policies, "limits.yaml"), perUser({ capacity: 2 }));
    await until("the status is well again", async () => (await statusOf()).status === 200);
    await metric(/sluice_policies\{state="refused"\} 0/);
  });
  assert.equal(await passes(address, "shop", { user: "ann" }), false, "no bucket was filled anew");
});

test("a file that cannot be read fails the reload, which names it, and the old plan stays in force", async (t) => {
  const { address, policies } = await standalone(t, {
    policies: { "limits.yaml": perUser({ capacity: 2 }) },
  });
  const statusOf = () => call(address, "GET", "/v1/status/system/policies");
  await underLoad(address, bucketOf("ann"), async () => {
    mkdirSync(join(policies, "b.yaml"));
    await until("the status tells", async () => (await statusOf()).status === 503);
    assert.match((await statusOf()).body, /b\.yaml: wanted a .*file.*, got (a directory|EISDIR)/);
    const { body } = await call(address, "GET", "/metrics");
    assert.match(body, /sluice_policy_reload_total\{result="failure"\} 1/);
    rmdirSync(join(policies, "b.yaml"));
    await until("the status is well again", async () => (await statusOf()).status === 200);
  });
});

test("a directory that disappears and returns unchanged is healthy again", async (t) => {
  const { address, policies } = await standalone(t, {
    policies: { "limits.yaml": perUser({ capacity: 2 }) },
  });
  const statusOf = () => call(address, "GET", "/v1/status/system/policies");
  await underLoad(address, bucketOf("ann"), async () => {
    renameSync(policies, `${policies}-away`);
    await until("the status tells", async () => (await statusOf()).status === 503);
    renameSync(`${policies}-away`, policies);
    await until("the status is well again", async () => (await statusOf()).status === 200);
  });
});

test("removing a document removes its rules and no others", async (t) => {
  const { address, policies } = await standalone(t, {
    policies: {
      "a.yaml": closedAt("a"),
      "b.json": JSON.stringify({ circuit: { components: [] } }),
      "c.yml": closedAt("c"),
      "limits.yaml": perUser({ capacity: 2 }),
    },
  });
  assert.deepEqual([await passes(address, "a"), await passes(address, "c")], [false, false]);
  await underLoad(address, bucketOf("ann"), async () => {
    rmSync(join(policies, "a.yaml"));
    await until("the rules of a are gone", () => passes(address, "a"));
    assert.equal(await passes(address, "c"), false);
  });
});

test("a directory whose files are replaced through a symbolic link is followed", async (t) => {
  const root = folderOf(t);
  const version = (name: string, text: string) => {
    mkdirSync(join(root, name));
    writeFileSync(join(root, name, "p.yaml"), text);
  };
  version("..v1", closedAt("one"));
  version("..v2", closedAt("two"));
  const { address, policies } = await standalone(t, {
    policies: { "limits.yaml": perUser({ capacity: 2 }) },
  });
  symlinkSync(join(root, "..v1"), join(root, "..data"));
  symlinkSync(join(root, "..data/p.yaml"), join(policies, "p.yaml"));
  await until("the first version is in force", async () => !(await passes(address, "one")));
  await underLoad(address, bucketOf("ann"), async () => {
    symlinkSync(join(root, "..v2"), join(root, "..next"));
    renameSync(join(root, "..next"), join(root, "..data"));
    await until("the second version is in force", async () => !(await passes(address, "two")));
  });
  assert.equal(await passes(address, "one"), true);
});

test("former names of label keys work, and name their key in decisions", async (t) => {
  const documents = {
    "sessions.yaml": `circuit:
  components:
    - flow_control:
        sampler:
          in_ports: { accept_percentage: { constant_signal: { value: 50 } } }
          parameters: { selectors: [{ control_point: shop }], label_key: http.request.header.user }
`,
    "limits.yaml": perUser({ capacity: 9 }).replace("limit_by_label_key", "label_key"),
  };
  const { address } = await standalone(t, { policies: documents });
  const decisionsOf = async (user: string) => {
    const check = {
      control_point: "shop",
      request: { method: "GET", path: "/", headers: { user } },
    };
    const { body } = await call(address, "POST", "/v1/flowcontrol/checkhttp", check);
    const decisions: readonly Decision[] = JSON.parse(body).check_response.limiter_decisions;
    const [sampler] = decisions.flatMap((each) => each.sampler_info ?? []);
    const [limiter] = decisions.flatMap((each) => each.rate_limiter_info ?? []);
    assert.equal(sampler?.label, `http.request.header.user:${user}`);
    const dropped = decisions.find((each) => each.sampler_info)?.dropped;
    // Samplers are asked before rate limiters.
    assert.equal(limiter?.label, dropped === true ? undefined : sampler.label);
    return dropped;
  };
  const chosen = new Set<boolean | undefined>();
  for (let user = 0; user < 20; user++) {
    const first = await decisionsOf(`user${user}`);
    for (let again = 0; again < 3; again++) assert.equal(await decisionsOf(`user${user}`), first);
    chosen.add(first);
  }
  assert.equal(chosen.size, 2, "some sessions pass and some do not");
});

interface Decision {
  readonly dropped: boolean;
  readonly sampler_info?: { readonly label: string };
  readonly rate_limiter_info?: { readonly label: string };
}
