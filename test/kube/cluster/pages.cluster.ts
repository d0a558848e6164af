// The commands of the pages about charts work as they stand: Helm renders what they would install. Needs Helm and no cluster.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { helm as command } from "../../../deploy/tools/go-tools.ts";
import { folderOf } from "../../kit/folder.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PAGES = [
  "docs/kubernetes.md",
  "deploy/charts/README.md",
  "deploy/charts/sluice/README.md",
  "deploy/charts/sluice-agent/README.md",
  "deploy/charts/sluice-controller/README.md",
];

function page(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The command lines of a page's code blocks, with continued lines joined. */
function commandsOf(path: string): readonly string[] {
  const blocks = [...page(path).matchAll(/^```(?:sh)?\n(.*?)^```$/gms)].map(
    ([, text = ""]) => text,
  );
  return blocks.flatMap((text) => text.replaceAll("\\\n", " ").split("\n"));
}

/** The values file that the chart's page shows for production. */
function production(): string {
  const [, text = ""] =
    /^```yaml\n(sluice-controller:.*?)^```$/ms.exec(page("deploy/charts/sluice/README.md")) ?? [];
  assert.notEqual(text, "");
  return text;
}

test("every installation and upgrade on a page renders", (t) => {
  const folder = folderOf(t, { "mine.yaml": production() });
  let rendered = 0;
  for (const path of PAGES)
    for (const line of commandsOf(path)) {
      if (!/^helm (?:install|upgrade) /.test(line)) continue;
      rendered++;
      const instead = line
        .replace(/^helm \w+/, `${command()} template --kube-version 1.34.1`)
        .replaceAll(/--(?:create-namespace|reuse-values)/g, "")
        .replaceAll("mine.yaml", join(folder, "mine.yaml"))
        .replaceAll("REGISTRY", "registry.example.com");
      const manifests = execFileSync("sh", ["-c", instead], {
        cwd: ROOT,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
      assert.match(manifests, /^kind: /m, `${path}: ${line}`);
    }
  assert.ok(rendered >= 6);
});

test("the refusal that the page shows is what Helm says", () => {
  const shown = /^\$ (helm template .*)\nError: (.*?)^```$/ms.exec(page("deploy/charts/README.md"));
  const [, line = "", wanted = ""] = shown ?? [];
  const instead = line.replace("helm", command());
  assert.throws(
    () => execFileSync("sh", ["-c", instead], { cwd: ROOT, encoding: "utf8", stdio: "pipe" }),
    ({ stderr }: { readonly stderr: string }) => {
      assert.ok(stderr.includes(wanted.trim()), stderr);
      return true;
    },
  );
});
