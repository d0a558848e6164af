// Injects into manifests as an injector with this configuration would do it in a cluster of today.

import { type DryRun, dryRun } from "#kube/injection/dry-run.ts";
import { version } from "#runtime/status/info.ts";
import { loadInjector } from "./config.ts";

type Sources = Parameters<typeof loadInjector>[0];

/**
 * Without a file of configuration, sidecars have the image of this version unless a variable names another. Throws a Fault for
 * text that is no manifest with a pod; `file` names it in messages.
 */
export function injectManifests(manifests: string, file: string, sources: Sources): DryRun {
  const { env, configPath } = sources;
  const image =
    configPath === undefined ? { SVC_INJECTOR_SIDECAR_IMAGE: `sluice:${version()}` } : {};
  const { injector, sidecars } = loadInjector({ ...sources, env: { ...image, ...env } });
  const { ignored_namespaces: ignoredNamespaces, native_sidecars } = injector.config;
  const ofProcess = { ignoredNamespaces, ipFamily: "IPv4", version: version() } as const;
  const settings = { ...sidecars({}).injection, ...ofProcess };
  return dryRun(manifests, file, settings, {
    nativeSidecars: native_sidecars !== "off",
    sleepAction: true,
  });
}
