// Every command of docs/kubernetes.md runs, in its order, with real Helm and kubectl. Pods are objects here and no container
// runs, so of the commands that reach into a pod it is only shown that they would find it. The control plane is this file's
// own, because the page installs objects of fixed names.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, test } from "node:test";
import { commandsOf, openShell, page } from "../../kit/kube/charts/commands.ts";
import { nothingLeft } from "../../kit/kube/charts/leftovers.ts";
import { applyVolume, runningPods } from "../../kit/kube/charts/releases.ts";
import { startControlPlane } from "../../kit/kube/control-plane.ts";
import { until } from "../../kit/until.ts";

const GUIDE = "docs/kubernetes.md";
const ROOT = join(import.meta.dirname, "../../..");
const { client, kubeconfig } = await startControlPlane({ after });

/** The values file that the chart's page shows for production. */
const [, PRODUCTION = ""] =
  /^```yaml\n(sluice-controller:.*?)^```$/ms.exec(page("deploy/charts/sluice/README.md")) ?? [];
const shell = openShell(
  { after },
  {
    kubeconfig,
    files: { "mine.yaml": PRODUCTION, "controller-password": "one", "agent-password": "two" },
  },
);

await applyVolume(client, "trial");

/** Commands that reach into a container. */
const EXEC = /^kubectl --namespace (\S+) exec (\S+) -- (.*)$/;
const FORWARD = /^kubectl --namespace (\S+) port-forward (\S+) \d+:(\d+)$/;

/** Runs a line, or shows as much of it as is possible without containers. */
async function execute(line: string): Promise<string> {
  const [, of = "", target = "", command = ""] = EXEC.exec(line) ?? [];
  if (target !== "") {
    execFileSync("sh", ["-c", `${command} --help`], { cwd: ROOT, stdio: "pipe" });
    return shell(`kubectl --namespace ${of} get ${target}`);
  }
  const [, from = "", service = "", port = ""] = FORWARD.exec(line) ?? [];
  if (service !== "") {
    const ports = "--output=jsonpath='{.spec.ports[*].port}'";
    assert.equal(await shell(`kubectl --namespace ${from} get ${service} ${ports}`), port);
    return "";
  }
  if (line.includes(" curl ")) return shell(`sh -n -c ${JSON.stringify(line)}`);
  return shell(line);
}

/** Says that the pods of `helm test` have succeeded, because no container runs that could. */
async function succeed(pods: readonly string[]): Promise<void> {
  for (const name of pods) {
    const pod = { apiVersion: "v1", kind: "Pod", name, namespace: "sluice" };
    await client.wait(pod, `the pod ${name}`, ({ spec }) => spec.nodeName !== undefined);
    await client.merge(pod, { status: { phase: "Succeeded" } }, "status");
  }
}

/** Checks after a command, by its beginning. */
const AFTER: readonly (readonly [start: string, holds: (said: string) => unknown])[] = [
  ["kubectl --namespace sluice get policies", (said) => assert.match(said, /^per-user /m)],
  [
    "kubectl --namespace sluice exec deployment/sluice-controller",
    (said) => assert.match(said, /1\/1|2\/2/),
  ],
  [
    "kubectl --namespace shop rollout status",
    (said) => assert.match(said, /successfully rolled out/),
  ],
  ["helm test", (said) => assert.equal(said.match(/Phase:\s+Succeeded/g)?.length, 2)],
  ["kubectl get namespaces --selector", (said) => assert.match(said, /^shop /m)],
  [
    "kubectl --namespace sluice rollout status deployment/sluice-injector",
    async () => assert.equal(await runningPods(client, "sluice", "injector"), 2),
  ],
  [
    "helm rollback",
    () =>
      until(
        "the controllers are there",
        async () => (await runningPods(client, "sluice", "controller")) === 2,
      ),
  ],
  [
    "helm uninstall",
    async () => {
      // The Secrets with passwords are the reader's own, and so are the policies, which outlive a release.
      for (const name of ["sluice-agent-etcd", "sluice-controller-etcd"])
        await client.delete({ apiVersion: "v1", kind: "Secret", name, namespace: "sluice" });
      await shell("kubectl --namespace sluice delete policies --all");
      await nothingLeft(client, "sluice");
    },
  ],
  [
    "kubectl delete --filename deploy/charts/sluice/charts/sluice-controller/crds",
    // The server removes a group by and by.
    () =>
      until(
        "the group is gone",
        async () => (await client.call("GET", "/apis/fluxninja.com/v1alpha1")).status === 404,
      ),
  ],
];

const lines = commandsOf(GUIDE).map((line) =>
  line.replaceAll("REGISTRY", "registry.example.com").replaceAll("NAMESPACE", "shop"),
);

test("the page has commands, and each check is about one of them", () => {
  assert.ok(lines.length > 25, `${lines.length} commands`);
  for (const [start] of AFTER)
    assert.ok(
      lines.some((line) => line.startsWith(start)),
      start,
    );
});

for (const line of lines)
  test(line, async () => {
    const testing = line.startsWith("helm test")
      ? succeed(["sluice-agent-test", "sluice-controller-test"])
      : undefined;
    const [said] = await Promise.all([execute(line), testing]);
    for (const [start, holds] of AFTER) if (line.startsWith(start)) await holds(said);
  });
