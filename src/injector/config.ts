// Loads the configuration of the injector: its own settings, and those of sidecars, which a ConfigMap may change at run time.

import { type ConfigError, ConfigFault } from "#config/fault.ts";
import { type ConfigSources, type Loaded, loadConfig, type Variable } from "#config/load.ts";
import type { Sidecars } from "./settings.ts";
import {
  type ConfiguredInjection,
  injectionSettings,
  placeholders,
  secretsOfSidecars,
} from "./settings-from-config.ts";

type Entries = Readonly<Record<string, string>>;

export interface ConfiguredSidecars {
  readonly injection: ConfiguredInjection;
  readonly secrets: Sidecars["secrets"];
}

export interface InjectorProcessConfig {
  readonly injector: Loaded<"injector">;
  /** The settings of sidecars with the entries of `sidecar.config_map`. @throws ConfigFault with all faults */
  readonly sidecars: (entries: Entries) => ConfiguredSidecars;
}

/** Prefixes of the variables that configure sidecars. All others take effect only at the start. */
const OF_SIDECARS: readonly string[] = [
  "SVC_AGENT_",
  "SVC_INJECTOR_ENVOY_",
  "SVC_INJECTOR_SIDECAR_",
];
const NAMES_THE_MAP = "SVC_INJECTOR_SIDECAR_CONFIG_MAP";

/**
 * Loads the trees of the injector and of the agent, from one file or from one file for each in a directory. With a
 * ConfigMap, the agent's tree is completed and checked later.
 * @throws ConfigFault with the faults of both trees
 */
export function loadInjector(sources: ConfigSources): InjectorProcessConfig {
  const faults: ConfigFault[] = [];
  const load = () => loadConfig("injector", { ...sources, beside: "agent" });
  const injector = attempt(load, faults);
  const name = injector?.config.sidecar.config_map ?? "";
  const sidecars = (entries: Entries) => withEntries(sources, name, entries);
  if (injector === undefined) {
    attempt(() => loadConfig("agent", { ...sources, beside: "injector" }), faults);
    throw ConfigFault.join(faults);
  }
  if (name === "") sidecars({});
  return { injector, sidecars };
}

function withEntries(sources: ConfigSources, map: string, entries: Entries): ConfiguredSidecars {
  const foreign = Object.keys(entries).filter((name) => !isOfSidecars(name));
  const faults = foreign.length === 0 ? [] : [new ConfigFault(foreign.map(unwanted(map)))];
  const variablesOf = (of: Entries) => Object.entries(of).map(variable(map));
  const injector = attempt(
    () => loadConfig("injector", { ...sources, variables: variablesOf(entries), beside: "agent" }),
    faults,
  );
  const referred = injector === undefined ? {} : placeholders(injector);
  const variables = variablesOf({ ...referred, ...entries });
  const env = withoutImageAddress(sources.env);
  const agent = attempt(
    () => loadConfig("agent", { ...sources, env, variables, beside: "injector" }),
    faults,
  );
  if (injector === undefined || agent === undefined || faults.length > 0)
    throw ConfigFault.join(faults);
  return {
    injection: injectionSettings({ injector, agent }),
    secrets: secretsOfSidecars({ injector, agent }),
  };
}

/** Returns undefined and adds the ConfigFault to `faults` on failure. */
function attempt<T>(load: () => T, faults: ConfigFault[]): T | undefined {
  try {
    return load();
  } catch (thrown) {
    if (!(thrown instanceof ConfigFault)) throw thrown;
    faults.push(thrown);
    return undefined;
  }
}

/**
 * The image sets this variable for `sluice standalone` (deploy/Dockerfile). In the injector's container it would override
 * the ConfigMap and become the address of sidecars.
 */
const IMAGE_ADDRESS = { name: "SVC_AGENT_SERVER_LISTENER_ADDR", text: ":8080" } as const;

function withoutImageAddress(env: ConfigSources["env"]): ConfigSources["env"] {
  const { [IMAGE_ADDRESS.name]: address, ...others } = env;
  return address === IMAGE_ADDRESS.text ? others : env;
}

function isOfSidecars(name: string): boolean {
  return name !== NAMES_THE_MAP && OF_SIDECARS.some((start) => name.startsWith(start));
}

const unwanted =
  (map: string) =>
  (name: string): ConfigError => ({
    process: "injector",
    path: "",
    where: placeOf(map, name),
    wanted: `only variables of sidecars (${OF_SIDECARS.map((start) => `${start}…`).join(", ")})`,
    got: "another name",
  });

const variable =
  (map: string) =>
  ([name, text]: readonly [string, string]): Variable => ({
    name,
    text,
    origin: { source: "environment", where: placeOf(map, name) },
  });

function placeOf(map: string, name: string): string {
  return map === "" ? name : `${name} in ConfigMap ${map}`;
}
