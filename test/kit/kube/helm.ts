// Runs Helm on the charts of deploy/charts.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { parseAllDocuments } from "yaml";
import { helm as command } from "../../../deploy/tools/go-tools.ts";

export type Chart = "sluice" | "sluice-agent" | "sluice-controller";

export type Values = Readonly<Record<string, unknown>>;

/** An object of a manifest. */
export interface Rendered {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: objects of all kinds, whose fields a test names
  readonly [field: string]: any;
}

const UMBRELLA = join(import.meta.dirname, "../../../deploy/charts/sluice");
/** The version that charts are rendered for where there is no cluster. */
const KUBERNETES = ["--kube-version", "1.34.1"];
const run = promisify(execFile);

export function chartPath(chart: Chart, ...inside: readonly string[]): string {
  return join(UMBRELLA, chart === "sluice" ? "" : `charts/${chart}`, ...inside);
}

/**
 * Runs Helm with these values in a file and resolves with its standard output. Rejects with what it wrote to standard
 * error, which is also what users see of a chart's plumbing: an installation that succeeds prints nothing there.
 * `kubeconfig` names the cluster; without it, none is reachable.
 */
export async function helm(
  args: readonly string[],
  { values = {}, kubeconfig = "/dev/null" }: { values?: Values; kubeconfig?: string } = {},
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-helm-"));
  try {
    const file = join(folder, "values.json");
    writeFileSync(file, JSON.stringify(values));
    const env = {
      PATH: process.env["PATH"],
      HOME: folder,
      KUBECONFIG: kubeconfig,
      HELM_CACHE_HOME: join(folder, "cache"),
      HELM_CONFIG_HOME: join(folder, "config"),
      HELM_DATA_HOME: join(folder, "data"),
    };
    const withValues = /^(?:template|install|upgrade|lint)$/.test(args[0] ?? "");
    const all = withValues ? [...args, "--values", file] : args;
    const { stdout, stderr } = await run(command(), all, { env, maxBuffer: 1 << 26 });
    if (withValues && stderr !== "") throw new Error(`Helm printed: ${stderr}`);
    return stdout;
  } catch (thrown) {
    if (!(thrown instanceof Error && "stderr" in thrown)) throw thrown;
    throw new Error(String(thrown.stderr), { cause: thrown });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The text of a chart's manifests. */
export function rendered(
  chart: Chart,
  values: Values = {},
  flags: readonly string[] = [],
): Promise<string> {
  const args = [
    "template",
    "sluice",
    chartPath(chart),
    "--namespace",
    "sluice",
    ...KUBERNETES,
    ...flags,
  ];
  return helm(args, { values });
}

export function objectsOf(manifests: string): readonly Rendered[] {
  return parseAllDocuments(manifests)
    .map((document) => {
      if (document.errors[0] !== undefined) throw document.errors[0];
      return document.toJS() as Rendered | null;
    })
    .filter((object) => object !== null);
}

/** The objects of a chart. */
export async function objectsIn(
  chart: Chart,
  values: Values = {},
  flags: readonly string[] = [],
): Promise<readonly Rendered[]> {
  return objectsOf(await rendered(chart, values, flags));
}
