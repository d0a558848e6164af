// Runs the tests that need a Kubernetes cluster, with one control plane for all of them.
// `run.ts [--short | FILE…]`; all of them by default.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { SHARED_CLUSTER, startControlPlane } from "../../kit/kube/control-plane.ts";

const ALL = "test/kube/cluster/**/*.cluster.ts";
/** The quickest files that show the most: the control plane, a trial's life, an injection, and policies as resources. */
const SHORT = ["control-plane", "trial", "injection", "policies"].map(
  (name) => `test/kube/cluster/${name}.cluster.ts`,
);
const FLAGS = [
  "--import=./test/kit/handles.ts",
  "--test",
  "--test-concurrency=2",
  "--test-timeout=900000",
];

const cleaning: (() => unknown)[] = [];
try {
  process.exitCode = await run();
} finally {
  for (const clean of cleaning.reverse()) await clean();
}

async function run(): Promise<number> {
  const { client, kubeconfig, logs } = await startControlPlane({
    after: (clean) => void cleaning.push(clean),
  });
  const file = join(logs, "cluster.json");
  const { url, ca, token } = client;
  writeFileSync(file, JSON.stringify({ kubeconfig, url, ca, token }));
  const named = process.argv.slice(2);
  const files = named.includes("--short") ? SHORT : named.length > 0 ? named : [ALL];
  const tests = spawn(process.execPath, [...FLAGS, ...files], {
    env: { ...process.env, [SHARED_CLUSTER]: file },
    stdio: "inherit",
  });
  const ended = await new Promise<number>((resolve) => {
    tests.once("exit", (status) => resolve(status ?? 1));
  });
  if (ended !== 0) process.stderr.write(`logs of the control plane: ${logs}\n`);
  return ended;
}
