// The commands that call a running controller: `agents`, `policy apply|get|list|delete` and `decisions`.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { runCommand } from "../kit/command.ts";
import { folderOf } from "../kit/folder.ts";
import { freePort } from "../kit/free-port.ts";
import { authority, temporaryFolder } from "../kit/servers/tls.ts";
import { call } from "../kit/sluice/check.ts";
import { standalone } from "../kit/sluice/standalone.ts";

const limit = (capacity: number) => `circuit:
  evaluation_interval: 0.05s
  components:
    - flow_control:
        rate_limiter:
          selectors: [{ control_point: shop }]
          in_ports:
            bucket_capacity: { constant_signal: { value: ${capacity} } }
            fill_amount: { constant_signal: { value: 1 } }
          parameters: { interval: 60s }
`;

const lines = (text: string) => text.trimEnd().split("\n");

test("policies are applied, listed, shown and deleted; agents and decisions are listed", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const folder = folderOf(t, { "shop.yaml": limit(5) });
  const run = (...args: readonly string[]) => runCommand([...args, "--controller", address]);
  assert.equal((await run("policy", "list")).out, "no policies\n");
  const applied = await run("policy", "apply", join(folder, "shop.yaml"));
  assert.equal(applied.err, "");
  assert.match(applied.out, /^shop applied, version [0-9a-f]{32}; 1 of 1 agents at this version$/m);
  const [head = "", row = ""] = lines((await run("policy", "list")).out);
  assert.deepEqual(head.split(/ +/), ["NAME", "STATUS", "AGENTS", "REASON"]);
  assert.deepEqual(row.split(/ {2,}/), ["shop", "VALID", "1 of 1"]);
  const { out: got } = await run("policy", "get", "shop");
  assert.equal(lines(got)[0], "# shop VALID; 1 of 1 agents at this version");
  assert.match(got, /^circuit:\n/m);
  const json = JSON.parse((await run("policy", "get", "shop", "--json")).out);
  assert.deepEqual(json.rollout, { agents: 1, applied: 1, behind: [], unknown: 0 });

  const decisions = JSON.parse((await run("decisions", "rate_limiter", "--json")).out);
  assert.equal(Object.keys(decisions).length, 1);
  assert.match((await run("decisions")).out, /agent_group-default-policy-shop/);
  assert.equal((await run("decisions", "nonsense")).code, 64);

  const agents = lines((await run("agents")).out);
  assert.equal(agents.length, 2);
  assert.match(agents[0] ?? "", /^ADDRESS +HOST +GROUP +REACHED BY$/);
  assert.match(agents[1] ?? "", / default +store$/);
  assert.equal(JSON.parse((await run("agents", "--json")).out).details.length, 1);
  const nobody = await run("agents", "--agent-group", "nobody");
  assert.match(nobody.err, /answered 404: no agents found for agent-group nobody/);
  await call(address, "POST", "/v1/flowcontrol/check", { control_point: "shop", labels: {} });
  assert.match((await run("agents", "--control-points")).out, /^shop +feature +- +default$/m);

  assert.equal((await run("policy", "delete", "shop")).out, "shop deleted\n");
  const gone = await run("policy", "delete", "shop");
  for (const unknown of [gone, await run("policy", "get", "shop"), nobody]) {
    assert.equal(unknown.code, 64);
    assert.match(unknown.err, /answered 404/);
  }
});

test("policy apply takes the dynamic configuration of a directory along", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const run = (...args: readonly string[]) => runCommand([...args, "--controller", address]);
  const variable = `circuit:
  evaluation_interval: 0.05s
  components:
    - variable:
        constant_output: { value: 1 }
        config_key: level
        out_ports: { output: { signal_name: LEVEL } }
`;
  const folder = folderOf(t, {
    "level.yaml": variable,
    "level.dynamic.yaml": "level: { value: 7 }\n",
    "shop.yaml": limit(5),
  });
  const applied = await run("policy", "apply", folder);
  assert.equal(applied.err, "");
  assert.deepEqual(
    lines(applied.out).map((line) => line.replace(/, version.*/, "")),
    [
      "level applied",
      "shop applied",
      `level: dynamic configuration of ${join(folder, "level.dynamic.yaml")} applied`,
    ],
  );
  const { body } = await call(address, "GET", "/v1/dynamic-configs/level");
  assert.deepEqual(JSON.parse(body), { dynamic_config: { level: { value: 7 } } });
  const json = JSON.parse((await run("policy", "apply", folder, "--json")).out);
  assert.deepEqual(
    json.map((each: Record<string, unknown>) => [each["name"], "dynamic_config" in each]),
    [
      ["level", true],
      ["shop", false],
    ],
  );

  const alone = folderOf(t, { "shop.yaml": limit(5), "other.dynamic.yaml": "level: 7\n" });
  const stray = await run("policy", "apply", alone);
  assert.equal(stray.code, 64);
  assert.match(stray.err, /other\.dynamic\.yaml.*there is no policy other among the documents/);
  assert.match(stray.err, /dynamic configuration of .*other\.dynamic\.yaml: .*policy not found/);
});

/**
 * A controller that says of a policy what `views` says, one after the other, and then the last of them again. It refuses
 * the policy called `taken`.
 */
async function controllerWith(t: TestContext, views: readonly object[]) {
  let at = 0;
  const server = createServer((request, response) => {
    request.resume();
    const view = views[Math.min(at, views.length - 1)];
    if (request.method === "GET") at += 1;
    const taken = request.method === "POST" && request.url?.endsWith("/taken");
    if (taken) response.statusCode = 409;
    const accepted = taken ? { message: "another has it" } : { policy_hash: "abc" };
    const body = request.method === "POST" ? accepted : view;
    response.setHeader("content-type", "application/json").end(JSON.stringify(body));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { address: `127.0.0.1:${port}`, asked: () => at };
}

const view = (applied: number, agents: number) => {
  const behind = ["h:1", "h:2"].slice(applied, agents);
  return { status: "VALID", reason: "", rollout: { agents, applied, behind, unknown: 0 } };
};

test("policy list says who refuses a policy, or else who has not told that it applies it", async (t) => {
  const refused = ["h:1: wanted a number\u0007", "h:2: wanted a number"];
  const policies = {
    late: view(0, 2),
    one: view(1, 2),
    refused: { ...view(0, 2), rollout: { ...view(0, 2).rollout, refused } },
    stale: { ...view(0, 2), status: "STALE", reason: "the file has a fault" },
  };
  const { address } = await controllerWith(t, [{ policies: { policies } } as never]);
  const { out } = await runCommand(["policy", "list", "--controller", address]);
  const rows = lines(out).slice(1);
  assert.deepEqual(
    rows.map((row) => row.split(/ {2,}/)),
    [
      ["late", "VALID", "0 of 2", "not yet at h:1 and 1 more"],
      ["one", "VALID", "1 of 2", "not yet at h:2"],
      ["refused", "VALID", "0 of 2", "refused by h:1: wanted a number\\u0007; 1 more refuse it"],
      ["stale", "STALE", "0 of 2", "the file has a fault"],
    ],
  );
});

test("policy apply waits until all agents apply the policy, at most as long as it may", async (t) => {
  const file = join(folderOf(t, { "shop.yaml": limit(5) }), "shop.yaml");
  const apply = (address: string, ...args: readonly string[]) =>
    runCommand(["policy", "apply", file, "--controller", address, ...args]);
  const notYet = { status: "NOT_LOADED", reason: "not loaded" };
  const slow = await controllerWith(t, [notYet, view(0, 2), view(1, 2), view(2, 2)]);
  const all = await apply(slow.address, "--wait", "1h");
  assert.equal(all.code, 0);
  assert.equal(all.out, "shop applied, version abc; 2 of 2 agents at this version\n");
  assert.equal(slow.asked(), 4);

  const never = await controllerWith(t, [view(1, 2)]);
  const some = await apply(never.address, "--wait", "150ms");
  assert.equal(some.code, 1, "an agent is behind");
  assert.match(
    some.out,
    /; 1 of 2 agents at this version; behind: h:2 so far; `sluice policy list`/,
  );
  assert.ok(never.asked() > 1);
  const asked = never.asked();
  assert.equal((await apply(never.address, "--wait", "0")).code, 0, "without a wait, no answer");
  assert.equal(never.asked(), asked + 1, "0 does not wait");

  const { rollout } = view(0, 1);
  const reasons = ["h:1: bucket_capacity: wanted a number\u0007"];
  const strict = await controllerWith(t, [
    { ...view(0, 1), rollout: { ...rollout, refused: reasons } },
  ]);
  const why = await apply(strict.address, "--wait", "150ms");
  assert.equal(why.code, 1);
  assert.equal(lines(why.out)[1], "  refused by h:1: bucket_capacity: wanted a number\\u0007");

  const nobody = await controllerWith(t, [view(0, 0)]);
  assert.match(
    (await apply(nobody.address, "--wait", "1h")).out,
    /; 0 of 0 agents at this version$/m,
  );
  const refused = await controllerWith(t, [notYet]);
  assert.equal((await apply(refused.address, "--wait", "50ms")).code, 1, "it does not run");
  const { out } = await apply(refused.address, "--wait", "0");
  assert.equal(out, "shop stored, version abc; it does not run yet, NOT_LOADED: not loaded\n");
  const { code, err } = await apply(refused.address, "--wait", "soon");
  assert.deepEqual(
    [code, err],
    [64, 'sluice: --wait: wanted a duration such as 10s, or 0, got "soon"\n'],
  );
});

test("policy apply shows the warnings of policy check", async (t) => {
  const { address } = await controllerWith(t, [view(1, 1)]);
  const text = limit(5).replace("interval: 60s", "interval: 60s, limit_by_label_key: user");
  const file = join(folderOf(t, { "shop.yaml": text }), "shop.yaml");
  const { code, err } = await runCommand(["policy", "apply", file, "--controller", address]);
  assert.equal(code, 0);
  assert.match(err, /shop\.yaml:\d+:\d+: .*label user; .*\(warning unknown_label\)/);
});

test("a policy from standard input gets its name from the document or from --name", async (t) => {
  const { address } = await standalone(t, { policies: {} });
  const apply = (text: string, ...args: readonly string[]) =>
    runCommand(["policy", "apply", ...args, "--controller", address], {
      stdin: (async function* () {
        yield text;
      })(),
    });
  const { code, out, err } = await apply(limit(5), "-");
  assert.deepEqual([code, out], [64, ""]);
  assert.match(
    err,
    /policy apply -: wanted the name of the policy, as metadata\.name or by --name/,
  );
  assert.match((await apply(limit(5), "-", "--name", "piped")).out, /^piped applied/);
  const spec = limit(5).replaceAll(/^/gm, "  ");
  const head =
    "apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: { name: named }\nspec:\n";
  assert.match((await apply(head + spec, "-")).out, /^named applied/);
  assert.match((await apply(head + spec, "-", "--name", "named")).out, /^named applied/);
  const unnamed = head.replace("metadata: { name: named }\n", "") + spec;
  assert.match((await apply(unnamed, "-", "--name", "given")).out, /^given applied/);
  assert.match((await apply(unnamed, "-")).err, /wanted the name of the policy/);
  const contradiction = await apply(head + spec, "-", "--name", "other");
  assert.deepEqual([contradiction.code, contradiction.out], [64, ""]);
  const wanted = 'wanted the name "other", or none, in the document, got "named"';
  assert.equal(contradiction.err, `sluice: --name: ${wanted}\n`);
  const file = join(folderOf(t, { "shop.yaml": limit(5) }), "shop.yaml");
  assert.match((await apply("", file, "--name", "x")).err, /--name: wanted - among the files/);
});

test("policy apply names the policy that the controller refuses, and those before it", async (t) => {
  const { address } = await controllerWith(t, [view(1, 1)]);
  const folder = folderOf(t, {
    "a.yaml": limit(1),
    "b.yaml": limit(2),
    "taken.yaml": limit(4),
    "z.yaml": limit(5),
  });
  const apply = (path: string) =>
    runCommand(["policy", "apply", path, "--controller", address, "--wait", "0"]);
  const { code, err } = await apply(folder);
  assert.equal(code, 64);
  assert.match(
    err,
    /policy taken of \S+taken\.yaml: .* answered 409: .*; applied before it: a, b$/m,
  );
  const alone = await apply(join(folder, "taken.yaml"));
  assert.match(alone.err, /policy taken of \S+taken\.yaml: .* answered 409/);
  assert.doesNotMatch(alone.err, /before it/);
});

test("policy apply refuses a file with several policies before it applies any", async (t) => {
  const { address } = await controllerWith(t, [view(1, 1)]);
  const object = (name: string) =>
    `apiVersion: fluxninja.com/v1alpha1\nkind: Policy\nmetadata: { name: ${name} }\nspec:\n${limit(1).replaceAll(/^(?=.)/gm, "  ")}`;
  const folder = folderOf(t, {
    "a.yaml": limit(1),
    "two.yaml": `${object("b")}---\n${object("c")}`,
  });
  const { code, out, err } = await runCommand(["policy", "apply", folder, "--controller", address]);
  assert.deepEqual([code, out], [64, ""]);
  assert.match(err, /two\.yaml: wanted one policy, got 2; put each policy in a file of its own\n$/);
});

test("documents with faults are refused with file and line, before the controller is asked", async (t) => {
  const folder = folderOf(t, { "bad.yaml": "circuit: { nonsense: 1 }\n" });
  const refused = await runCommand(["policy", "apply", join(folder, "bad.yaml")]);
  assert.equal(refused.code, 1);
  assert.match(refused.err, /bad\.yaml:1:\d+: /);
});

test("a controller that is away, another server, and a missing token are told apart", async (t) => {
  const port = await freePort();
  const away = await runCommand(["agents", "--controller", `127.0.0.1:${port}`]);
  assert.equal(away.code, 69);
  assert.match(away.err, /no controller answers at .*ECONNREFUSED.*--controller/);
  const token = "correct-horse-battery-staple";
  const { address } = await standalone(t, {
    policies: {},
    env: { SVC_AGENT_SERVER_ADMINISTRATION_TOKEN: token },
  });
  const refused = await runCommand(["agents", "--controller", address]);
  assert.match(refused.err, /answered 401: administration requires a token.*--token-path/);
  const variable = { SVC_CONTROLLER_SERVER_ADMINISTRATION_TOKEN: token };
  assert.equal((await runCommand(["agents", "--controller", address], { env: variable })).code, 0);
  const path = join(folderOf(t, { token: `${token}\n` }), "token");
  const withFile = ["agents", "--controller", address, "--token-path", path];
  assert.equal((await runCommand(withFile)).code, 0);
  for (const args of [
    ["agents", "--controller", "http://ann:secret@h:1"],
    ["agents", "--cert", path],
    ["agents", "--ca", "/no/such/file"],
    ["policy", "get"],
    ["policy", "delete", "a", "b"],
    ["decisions", "a", "b"],
  ]) {
    const { code, err } = await runCommand(args);
    assert.equal(code, 64, args.join(" "));
    assert.doesNotMatch(err, /secret/);
  }
});

test("TLS with authorities and a client certificate", async (t) => {
  const own = authority(temporaryFolder(t), "own");
  const server = own.issue("server");
  const client = own.issue("client");
  const { address } = await standalone(t, {
    policies: {},
    env: {
      SVC_AGENT_SERVER_TLS_ENABLED: "true",
      SVC_AGENT_SERVER_TLS_CERT_FILE: server.certFile,
      SVC_AGENT_SERVER_TLS_KEY_FILE: server.keyFile,
      SVC_AGENT_SERVER_TLS_CLIENT_CA_FILE: own.certFile,
    },
  });
  const run = (...args: readonly string[]) =>
    runCommand(["agents", "--controller", address, ...args]);
  const certificate = ["--cert", client.certFile, "--key", client.keyFile];
  const ran = await run("--ca", own.certFile, ...certificate);
  assert.equal(ran.err, "");
  assert.equal(ran.code, 0);
  assert.equal((await run("--ca", own.certFile)).code, 69, "without a certificate");
  assert.equal((await run(...certificate)).code, 69, "the authority is unknown");
});
