// The commands of the pages about charts work as they stand: Helm renders what they would install. Needs Helm and no cluster.

import assert from "node:assert/strict";
import { test } from "node:test";
import { amountOf } from "../../../src/injector/mutation/annotations.ts";
import { commandsOf, openShell, page } from "../../kit/kube/charts/commands.ts";
import { objectsIn } from "../../kit/kube/helm.ts";
import { workloads } from "../../kit/kube/rendering.ts";

const PAGES = [
  "docs/kubernetes.md",
  "deploy/charts/README.md",
  "deploy/charts/sluice/README.md",
  "deploy/charts/sluice/charts/sluice-agent/README.md",
  "deploy/charts/sluice/charts/sluice-controller/README.md",
];

/** The values file that the chart's page shows for production. */
function production(): string {
  const [, text = ""] =
    /^```yaml\n(sluice-controller:.*?)^```$/ms.exec(page("deploy/charts/sluice/README.md")) ?? [];
  assert.notEqual(text, "");
  return text;
}

test("every installation and upgrade on a page renders", async (t) => {
  const shell = openShell(t, { files: { "mine.yaml": production() } });
  let rendered = 0;
  for (const path of PAGES)
    for (const line of commandsOf(path)) {
      if (!/^helm (?:install|upgrade) /.test(line)) continue;
      rendered++;
      const instead = line
        .replace(/^helm \w+/, "helm template --kube-version 1.34.1")
        .replaceAll(/--(?:create-namespace|reset-then-reuse-values)/g, "")
        .replaceAll("REGISTRY", "registry.example.com");
      assert.match(await shell(instead), /^kind: /m, `${path}: ${line}`);
    }
  assert.ok(rendered >= 6);
});

test("the page says what the pods of a default installation request together", async () => {
  const sum = { cpu: 0, memory: 0 };
  for (const { spec } of workloads(await objectsIn("sluice"))) {
    const { containers } = spec.template?.spec ?? { containers: [] };
    for (const { resources } of containers) {
      const { cpu, memory } = resources.requests;
      sum.cpu += (spec.replicas ?? 1) * (amountOf(cpu) ?? Number.NaN);
      sum.memory += (spec.replicas ?? 1) * (amountOf(memory) ?? Number.NaN);
    }
  }
  const said = `request ${Number(sum.cpu.toFixed(3))} cores and ${sum.memory / 2 ** 20} MiB`;
  assert.ok(page("docs/kubernetes.md").includes(said), said);
});

test("the refusal that the page shows is what Helm says", async (t) => {
  const shown = /^\$ (helm template .*)\nError: (.*?)^```$/ms.exec(page("deploy/charts/README.md"));
  const [, line = "", wanted = ""] = shown ?? [];
  await assert.rejects(openShell(t)(line), ({ message }: Error) => {
    assert.ok(message.includes(wanted.trim()), message);
    return true;
  });
});
