// `policy check` as authors and CI use it: what is a warning, what `--strict` makes of it, and the last line.

import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { runCommand } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { CONSTANT_PORTS, circuit, rateLimiter, SELECTORS } from "../policy/kit.ts";

const PLAIN = circuit(rateLimiter(CONSTANT_PORTS));
const BY_USER = circuit(
  rateLimiter(CONSTANT_PORTS, "parameters: {interval: 1s, limit_by_label_key: user}"),
);
const REGO = `resources:
  flow_control:
    classifiers:
      - ${SELECTORS}
        rego: {labels: {user: {}}, module: "package a\\nuser := input.x"}
`;

function asking(query: string): string {
  return circuit(
    `query: {promql: {query_string: '${query}', evaluation_interval: 1s, out_ports: {output: {signal_name: A}}}}`,
  );
}

async function check(t: TestContext, text: string, ...flags: readonly string[]) {
  const file = join(folderOf(t, { "p.yaml": text }), "p.yaml");
  const { code, out, err } = await runCommand(["policy", "check", ...flags, file]);
  return { code, text: out + err, last: (out + err).trimEnd().split("\n").at(-1) };
}

describe("policy check", () => {
  it("says in its last line that all is well, with and without --strict", async (t) => {
    for (const flags of [[], ["--strict"]]) {
      const { code, last } = await check(t, PLAIN, ...flags);
      assert.deepEqual([code, last], [0, "valid: 1 policy"]);
    }
  });

  it("warns of a limit key that nothing makes, which --strict refuses and --label declares", async (t) => {
    const { code, text, last } = await check(t, BY_USER);
    assert.equal(code, 0);
    assert.match(
      text,
      /p\.yaml:3:\d+: .*limit_by_label_key: .* label user; .*\(warning unknown_label\)/,
    );
    assert.equal(last, "valid: 1 policy; 1 warning");
    assert.equal((await check(t, BY_USER, "--strict")).code, 1);
    assert.equal((await check(t, BY_USER, "--strict", "--label", "user")).code, 0);
    for (const blank of ["", " "]) {
      const { code, text } = await check(t, BY_USER, "--label", blank);
      assert.equal(code, 64);
      assert.equal(text, "sluice: --label: wanted the name of a label, got nothing\n");
    }
  });

  it("confines policies to the namespace that --namespace names", async (t) => {
    const own = PLAIN.replace("control_point: ingress", "$&, service: web.shop.svc.cluster.local");
    assert.equal((await check(t, own, "--namespace", "shop")).code, 0);
    const { code, text } = await check(t, own, "--namespace", "pay");
    assert.equal(code, 1);
    assert.match(text, /p\.yaml:3:\d+: .*service: wanted a service of the namespace pay, such as/);
    const blank = await check(t, own, "--namespace", " ");
    assert.deepEqual(
      [blank.code, blank.text],
      [64, "sluice: --namespace: wanted the name of a namespace, got nothing\n"],
    );
  });

  it("checks the targets of a resource, whose selectors need no control point", async (t) => {
    const selectors = "selectors: [{}]";
    const limit = PLAIN.replaceAll(SELECTORS, selectors).replaceAll("\n", "\n  ");
    const head = "apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec:\n";
    const target = (kind: string) =>
      `${head}  targetRefs: [{group: gateway.networking.k8s.io, kind: ${kind}, name: a}]\n  ${limit}`;
    assert.ok(limit.includes(selectors));
    assert.deepEqual((await check(t, target("HTTPRoute"))).last, "valid: 1 policy");
    const { code, text } = await check(t, target("Service"));
    assert.equal(code, 1);
    assert.match(text, /p\.yaml:5:\d+: spec\.targetRefs\[0\]\.kind: wanted Gateway or HTTPRoute/);
  });

  it("says in its last line which parts agents do not act on; --strict refuses them", async (t) => {
    const { code, last } = await check(t, REGO);
    assert.deepEqual(
      [code, last],
      [0, "valid: 1 policy; agents of this version do not act on 1 part"],
    );
    assert.equal((await check(t, REGO, "--strict")).code, 1);
  });

  it("tells without --auto-scale what needs a controller that scales", async (t) => {
    const object = "{namespace: shop, api_version: apps/v1, kind: Deployment, name: api}";
    const scaling = circuit(
      `auto_scale: {pod_scaler: {in_ports: {replicas: {constant_signal: {value: 3}}}, kubernetes_object_selector: ${object}}}`,
    );
    const { code, text } = await check(t, scaling);
    assert.equal(code, 0);
    const line =
      "the replicas of Deployment shop/api change only where auto_scale.kubernetes.enabled";
    assert.ok(text.includes(line), text);
    assert.match(text, /kubernetes_object_selector: .*\(warning needs_auto_scale\)/);
    assert.equal((await check(t, scaling, "--auto-scale", "--strict")).code, 0);
  });

  it("tells without --queries what needs a Prometheus server", async (t) => {
    for (const query of ["predict_linear(sluice_policies[1m], 1)", "my_service_latency"]) {
      const { code, text } = await check(t, asking(query));
      assert.equal(code, 0);
      assert.match(text, /without a Prometheus server .*\(warning needs_prometheus\)/, query);
      assert.equal((await check(t, asking(query), "--queries", "prometheus", "--strict")).code, 0);
    }
    const refused = await check(
      t,
      asking("predict_linear(sluice_policies[1m], 1)"),
      "--queries",
      "own",
    );
    assert.equal(refused.code, 1);
    const unknown = await check(t, asking("my_service_latency"), "--queries", "own");
    assert.match(unknown.text, /\(warning unknown_metric\)/);
  });

  it("names the files of a directory that look like policies and are not read", async (t) => {
    const folder = folderOf(t, {
      "p.yaml": PLAIN,
      "CHECKOUT.YAML": PLAIN,
      "p.yaml.bak": PLAIN,
      "p.yaml~": PLAIN,
      ".p.yaml.swp": "",
      "README.md": "",
      "notes.txt": "",
    });
    mkdirSync(join(folder, "team"));
    writeFileSync(join(folder, "team", "q.yml"), PLAIN);
    const { code, out } = await runCommand(["policy", "check", folder]);
    assert.equal(code, 0);
    const named = [
      ...out.matchAll(/^(.*):1:1: not read as a policy: .*\(warning ignored_file\)$/gm),
    ];
    assert.deepEqual(
      named.map(([, path = ""]) => relative(folder, path)),
      ["CHECKOUT.YAML", "p.yaml.bak", "p.yaml~", "team/q.yml"],
    );
    assert.equal((await runCommand(["policy", "check", "--strict", folder])).code, 1);
    rmSync(join(folder, "p.yaml"));
    const { err } = await runCommand(["policy", "check", folder]);
    assert.match(err, /wanted at least one policy .*, got none; not read: .*CHECKOUT\.YAML, /);
  });

  it("puts selectors that name no group into that of --agent-group, as the controller's key would", async (t) => {
    // Keys of the store join names without escaping, so that these two collide in the group shop.
    const folder = folderOf(t, {
      "a-policy-b.yaml": PLAIN,
      "b.yaml": PLAIN.replace(
        "control_point: ingress",
        "control_point: ingress, agent_group: shop-policy-a",
      ),
    });
    assert.equal((await runCommand(["policy", "check", folder])).code, 0);
    const inShop = await runCommand(["policy", "check", "--agent-group", "shop", folder]);
    assert.equal(inShop.code, 1);
    assert.match(
      inShop.err,
      /wanted a unique store key, got .* agent_group-shop-policy-a-policy-b/,
    );
    for (const bad of ["", "a/b"]) {
      const { code, text } = await check(t, PLAIN, `--agent-group=${bad}`);
      assert.equal(code, 64);
      assert.match(text, /--agent-group: wanted a name without \/, got "/);
    }
  });

  it("reports codes in JSON, and `ok` as the exit code means it", async (t) => {
    for (const [flags, ok] of [
      [["--json"], true],
      [["--json", "--strict"], false],
    ] as const) {
      const { code, text } = await check(t, BY_USER, ...flags);
      const report = JSON.parse(text);
      assert.deepEqual([report.ok, code], [ok, ok ? 0 : 1]);
      assert.equal(report.warnings[0].code, "unknown_label");
    }
  });

  it("colours for a terminal only, and never against NO_COLOR", async (t) => {
    const file = join(folderOf(t, { "p.yaml": BY_USER }), "p.yaml");
    const run = (env: Record<string, string>, out: boolean) =>
      runCommand(["policy", "check", file], { env, isTty: { out, err: out } });
    const ESCAPE = String.fromCharCode(27);
    assert.ok((await run({}, true)).out.includes(ESCAPE));
    assert.ok((await run({ NO_COLOR: "" }, true)).out.includes(ESCAPE));
    assert.ok(!(await run({}, false)).out.includes(ESCAPE));
    assert.ok(!(await run({ NO_COLOR: "1" }, true)).out.includes(ESCAPE));
    assert.ok(!(await run({ TERM: "dumb" }, true)).out.includes(ESCAPE));
  });
});
