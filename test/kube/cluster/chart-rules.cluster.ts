// What a process refuses although each key by itself is right, `helm template` refuses as well: every rule between keys of
// the configuration tables is broken once, and every duration is made too long. Needs Helm and no cluster.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ConfigFault } from "#config/fault.ts";
import { loadConfig } from "#config/load.ts";
import type { Table } from "#config/table/row.ts";
import type { KeyRule } from "#config/table/rule.ts";
import { joined, PROCESSES } from "#config/tree.ts";
import { folderOf } from "../../kit/folder.ts";
import { chartPath, type Values } from "../../kit/kube/helm.ts";
import { agent, controller, merged, treeOf } from "../../kit/kube/rendering.ts";

const CHARTS = { agent, controller } as const;
type Process = keyof typeof CHARTS;

interface Found {
  /** Path of the object; the step `[]` stands for the items of a list. */
  readonly at: string;
  readonly table: Table;
}

/** All objects of a table, itself included. */
function tablesOf(table: Table, at = ""): readonly Found[] {
  return [
    { at, table },
    ...Object.entries(table.rows).flatMap(([key, row]) => {
      if (row.kind === "object") return tablesOf(row.table, joined(at, key));
      return row.kind === "objects" ? tablesOf(row.table, `${joined(at, key)}.[]`) : [];
    }),
  ];
}

/** As `treeOf`, where the step `[]` makes a list of one item. */
function tree(path: string, value: unknown): Values {
  const [before, inside] = path.split(".[].");
  return inside === undefined ? treeOf(path, value) : treeOf(before ?? "", [tree(inside, value)]);
}

/** Keys, with the texts of a file, that break a rule and no other one. */
function breaking({ when }: KeyRule): Readonly<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for (const [key, is, of] of when) {
    if (is === "is not") values[key] ??= /addresses$/.test(key) ? ["redis:26379"] : sampleOf(key);
    if (is === "is" && of !== "") values[key] = /^(true|false)$/.test(of) ? of === "true" : of;
    if (is === "lacks") values[key] = "redis://redis:6379";
    if (is === "below") Object.assign(values, { [key]: 10, [of]: 20 });
  }
  return values;
}

const sampleOf = (key: string) =>
  key === "addr"
    ? ":9999"
    : key === "cloudext.installation_mode"
      ? "KUBERNETES_DAEMONSET"
      : "agents.example.com";

/** The paths that the process complains about when its file has this tree. */
function faultsOf(process: Process, folder: (text: string) => string, config: Values) {
  try {
    loadConfig(process, {
      env: {},
      configPath: folder(JSON.stringify(config)),
      dotenvDir: "/nowhere",
    });
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConfigFault)) throw thrown;
    return thrown.errors.map(({ path }) => path);
  }
}

for (const process of ["agent", "controller"] as const) {
  const { table, service } = PROCESSES[process];
  /** What Helm says about a configuration, of which secrets are references. */
  const refusal = (config: Values, secrets: Values = {}) =>
    CHARTS[process]({ [process]: { config, secrets } }).then(
      () => "",
      ({ message }: Error) => message,
    );

  test(`the chart refuses each combination of keys that the ${process} refuses`, async (t) => {
    const folder = (text: string) => folderOf(t, { [`${service}.yaml`]: text });
    const broken = tablesOf(table).flatMap(({ at, table: { rules = [], rows } }) =>
      rules.map((rule) => ({ at, rule, rows })),
    );
    assert.ok(broken.length > 20);
    for (const { at, rule, rows } of broken) {
      const values = Object.entries(breaking(rule));
      const isSecret = ([key]: readonly [string, unknown]) => {
        const row = rows[key];
        return row !== undefined && "secret" in row && row.secret === true;
      };
      const whole = merged(...values.map(([key, value]) => tree(joined(at, key), value)));
      const faults = faultsOf(process, folder, whole);
      const name = `${at} ${JSON.stringify(values)}`;
      assert.ok(faults.length > 0, `the ${process} takes ${name}`);
      const reference = { name: "credentials", key: "entry" };
      const said = await refusal(
        merged(
          ...values
            .filter((each) => !isSecret(each))
            .map(([key, value]) => tree(joined(at, key), value)),
        ),
        merged(...values.filter(isSecret).map(([key]) => tree(joined(at, key), reference))),
      );
      const [, path = ""] = new RegExp(`${process}\\.config\\.(\\S+): wanted`).exec(said) ?? [];
      // Values may break two rules, of which the process may name the other one.
      const known = [joined(at, rule.key), ...faults];
      assert.ok(known.includes(path.replace(".[]", "[0]")), `${name}: ${faults}; Helm: ${said}`);
    }
  });

  test(`the chart refuses durations out of the bounds of the ${process}, and takes those within`, async () => {
    const rows = tablesOf(table).flatMap(({ at, table: { rows } }) =>
      Object.entries(rows).flatMap(([key, row]) =>
        row.kind === "duration" ? [{ path: joined(at, key), row }] : [],
      ),
    );
    assert.ok(rows.length > 20);
    const longest = ({ most = "576h" }: { readonly most?: string }) => most;
    const all = (text: (most: string) => string) =>
      rows.map(({ path, row }) => tree(path, text(longest(row))));
    assert.equal(await refusal(merged(...all((most) => most))), "");
    const listed: readonly { list: string; durations: readonly { path: string }[] }[] = JSON.parse(
      readFileSync(chartPath(`sluice-${process}`, "files/rules.json"), "utf8"),
    );
    const known = listed.flatMap(({ list, durations }) =>
      durations.map(({ path }) => (list === "" ? path : `${list}.[].${path}`)),
    );
    assert.deepEqual(known.toSorted(), rows.map(({ path }) => path).toSorted());
    // Of the tree, of a list, and one that has a bound of its own where there is one.
    const some = [
      rows.find(({ path }) => !path.includes("[]")),
      rows.find(({ path }) => path.includes("[]")),
      rows.find(({ row }) => row.most !== undefined),
    ];
    for (const { path, row } of some.filter((each) => each !== undefined)) {
      const said = await refusal(tree(path, `${longest(row)}1ms`));
      assert.ok(said.includes(`${process}.config.${path}: wanted a duration`), `${path}: ${said}`);
    }
    assert.match(await refusal(treeOf("etcd.lease_ttl", "0.9s")), /etcd\.lease_ttl: wanted/);
  });
}

test("an agent with counters in Redis needs its address", async () => {
  const counters = (redis: Values) =>
    agent(treeOf("agent.config.counters", { engine: "redis", redis }));
  await assert.rejects(counters({}), /agent\.config\.counters\.redis\.url: wanted the address/);
  await counters({ url: "redis://redis:6379" });
  await counters({ sentinel: { master: "m", addresses: ["sentinel:26379"] } });
});

test("certificates, servers and variables that do not stand in the configuration count, too", async () => {
  const withTls = treeOf("agent.config.server.tls.enabled", true);
  await assert.rejects(agent(withTls), /agent\.config\.server\.tls\.cert_file: wanted a file/);
  await agent(withTls, { tls: { server: { secretName: "tls" } } });
  const files = ["CERT", "KEY"].map((file) => ({
    name: `SVC_AGENT_SERVER_TLS_${file}_FILE`,
    value: "/tls/file",
  }));
  await agent(withTls, { agent: { extraEnv: files } });
  const redis = treeOf("tls.redis.secretName", "tls");
  await assert.rejects(agent(redis), /counters\.redis\.tls\.ca_file: wanted nothing/);
  await agent(redis, treeOf("agent.config.counters.redis.url", "rediss://redis:6379"));
});
