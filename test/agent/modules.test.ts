// An agent decodes rules that a controller compiled; it loads neither the policy language nor anything else that only
// a controller needs. Checked twice: by the imports of its modules, and by the modules that a running agent loads.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

const ROOT = join(import.meta.dirname, "../..");
/** The command `sluice agent`. */
const ENTRY = "src/cli/processes/agent.ts";

const CONTROLLER_ONLY = [
  "policy",
  "circuit",
  "promql",
  "prometheus",
  "controller",
  "simulate",
  // Sidecars know of Kubernetes only what comes to them through the store.
  "kube",
];
/** The module that an agent loads only where it discovers services through the API server, and its importer. */
const DISCOVERY = {
  importer: "src/agent/discovery/cluster.ts",
  target: "src/kube/discovery/discovery.ts",
} as const;
/** Agents publish their metrics to the server that controllers query. */
const REMOTE_WRITE = /^src\/prometheus\/(?:address\.ts$|remote-write)/;

/**
 * Imports that remain at run time: with `verbatimModuleSyntax` all except `import type` and `export type`. Dynamic
 * imports count too.
 */
const IMPORT = /(?:^(?:import|export)\s(?!type\b)[^;]*?|\bimport\()"([^"]+)"/gm;

function importsOf(file: string): readonly string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  return [...text.matchAll(IMPORT)].flatMap(([, target = ""]) => {
    if (target.startsWith("#gen/")) return [`proto/${target.slice(1)}`];
    if (target.startsWith("#")) return [`src/${target.slice(1)}`];
    return target.startsWith(".") ? [join(dirname(file), target)] : [];
  });
}

/** Every module that the entry reaches, with the one that imports it. */
function reachedFrom(entry: string): ReadonlyMap<string, string> {
  const reached = new Map([[entry, ""]]);
  for (const file of reached.keys()) {
    for (const target of importsOf(file)) {
      if (file === DISCOVERY.importer && target === DISCOVERY.target) continue;
      if (!reached.has(target) && target.endsWith(".ts")) reached.set(target, file);
    }
  }
  return reached;
}

const roomOf = (file: string) => file.split("/")[1] ?? "";
const isControllerOnly = (file: string) =>
  CONTROLLER_ONLY.includes(roomOf(file)) && !REMOTE_WRITE.test(file);

test("no import leads from the agent to a room of the controller", () => {
  const reached = reachedFrom(ENTRY);
  assert.ok(reached.size > 80, `${reached.size} modules: too few to be an agent`);
  const found = [...reached].filter(([file]) => isControllerOnly(file));
  assert.deepEqual(found, []);
});

test("service discovery is loaded on demand", () => {
  assert.ok(reachedFrom(ENTRY).has(DISCOVERY.importer));
  const text = readFileSync(join(ROOT, DISCOVERY.importer), "utf8");
  const found = [...text.matchAll(/^.*"#kube\/.*$/gm)].map(([line]) => line.trim());
  assert.deepEqual(found, [
    'const { openDiscovery } = await import("#kube/discovery/discovery.ts");',
  ]);
});

test("the imports of a controller do lead to those rooms", () => {
  const rooms = new Set([...reachedFrom("src/cli/processes/controller.ts").keys()].map(roomOf));
  for (const room of ["policy", "circuit", "promql", "prometheus"])
    assert.ok(rooms.has(room), room);
});

/** Starts an agent, asks it for a decision and for its metrics, and prints the URLs of all modules loaded. */
const SCRIPT = `
  import { registerHooks } from "node:module";
  const loaded = [];
  registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context); } });
  const { startAgentProcess } = await import("#agent/process.ts");
  const { loadConfig } = await import("#config/load.ts");
  const { memoryStore } = await import("#store/memory.ts");
  const { Scope } = await import("#base/scope.ts");
  const { realClock, realChance } = await import("#runtime/life/clock.ts");
  const env = {
    SVC_AGENT_SERVER_LISTENER_ADDR: "127.0.0.1:0",
    SVC_AGENT_OTEL_PORTS_DEBUG_PORT: "0",
    SVC_AGENT_OTEL_PORTS_HEALTH_CHECK_PORT: "0",
    SVC_AGENT_OTEL_PORTS_PPROF_PORT: "0",
    SVC_AGENT_OTEL_PORTS_ZPAGES_PORT: "0",
    SVC_AGENT_SERVER_DRAIN_ACCEPT_FOR: "0s",
    SVC_AGENT_LOG_LEVEL: "error",
    // As in the pod of an application.
    KUBERNETES_SERVICE_HOST: "10.96.0.1",
    KUBERNETES_SERVICE_PORT: "443",
    SVC_AGENT_SERVICE_DISCOVERY_KUBERNETES_SOURCE: "controller",
    POD_IP: "10.0.0.1",
  };
  const scope = new Scope();
  const { main } = await startAgentProcess({
    config: loadConfig("agent", { env, dotenvDir: "/nonexistent" }),
    store: memoryStore(),
    chance: realChance(),
    context: {
      argv: [], env, clock: realClock(), scope,
      stopping: new AbortController().signal,
      useLog: () => undefined,
      onReload: () => undefined,
      fail: (message) => { throw new Error(message); },
    },
  });
  const check = await fetch("http://" + main.address + "/v1/flowcontrol/checkhttp", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ control_point: "ingress" }),
  });
  const metrics = await fetch("http://" + main.address + "/metrics");
  if (!check.ok || !metrics.ok) throw new Error(check.status + " " + metrics.status);
  await metrics.text();
  console.log(JSON.stringify(loaded));
  await scope.close("cut");
`;

test("a running agent has loaded no module of those rooms", () => {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module-typescript", "-e", SCRIPT],
    { encoding: "utf8", cwd: ROOT, timeout: 60_000 },
  );
  assert.ok(stdout.startsWith("["), stderr);
  const urls: readonly string[] = JSON.parse(stdout);
  const own = urls
    .filter((url) => url.startsWith("file:"))
    .map((url) => relative(ROOT, new URL(url).pathname))
    .filter((file) => file.startsWith("src/"));
  assert.ok(own.includes("src/agent/process.ts"));
  assert.deepEqual(own.filter(isControllerOnly), []);
  const reached = reachedFrom(ENTRY);
  // The script itself loads the store. Any other module here would be an import that `importsOf` missed.
  assert.deepEqual(
    own.filter((file) => !reached.has(file)),
    ["src/store/memory.ts"],
  );
});
