// Loads the configuration of the injector: its own settings, and those of sidecars, which a ConfigMap may change while it runs.

import { type ConfigError, ConfigFault } from "#config/fault.ts";
import { type ConfigSources, type Loaded, loadConfig, type Variable } from "#config/load.ts";
import type { Sidecars } from "./settings.ts";
import {
  type ConfiguredInjection,
  injectionSettings,
  secretsOfSidecars,
  standIns,
} from "./settings-from-config.ts";

/** Entries of a ConfigMap. */
type Entries = Readonly<Record<string, string>>;

export interface ConfiguredSidecars {
  readonly injection: ConfiguredInjection;
  readonly secrets: Sidecars["secrets"];
}

export interface InjectorProcessConfig {
  readonly injector: Loaded<"injector">;
  /** Settings of sidecars with the entries of `sidecar.config_map`. Throws a ConfigFault that names the faults of all. */
  readonly sidecars: (entries: Entries) => ConfiguredSidecars;
}

/** Beginnings of the variables that are about sidecars; the other ones take effect at the start only. */
const OF_SIDECARS: readonly string[] = [
  "SVC_AGENT_",
  "SVC_INJECTOR_ENVOY_",
  "SVC_INJECTOR_SIDECAR_",
];
/** The ConfigMap cannot name itself. */
const NAMES_THE_MAP = "SVC_INJECTOR_SIDECAR_CONFIG_MAP";

/**
 * Loads the injector's tree and the agent's, from one file or from the file of each in a directory. Throws one ConfigFault
 * with the faults of both; those of the agent's tree are found later where a ConfigMap has the rest of it.
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
  const referred = injector === undefined ? {} : standIns(injector);
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

/** The result, or undefined with its ConfigFault among the faults. */
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
 * The image sets this variable for `sluice standalone` (deploy/Dockerfile). In the injector's container it would win over the
 * ConfigMap and be the address of sidecars, which nobody asked for.
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
