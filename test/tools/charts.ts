// Files of deploy/charts that follow from the configuration tables: the schemas of the charts' values, by which Helm
// refuses a wrong key or value with its path, and the lists of keys that are secret.

import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { address, proxyAddress, serviceAddress } from "#config/table/format.ts";
import type { Row, Table } from "#config/table/row.ts";
import { textAt } from "#config/table/rule.ts";
import { MIN_MS, mostOf, wantedOf } from "#config/table/value.ts";
import { joined, PROCESSES, type ProcessName } from "#config/tree.ts";
import { configSchema, type JsonSchema } from "./reference/configuration-schema.ts";

const TEXT: JsonSchema = { type: "string" };
const BOOL: JsonSchema = { type: "boolean" };
const TEXTS: JsonSchema = { type: "object", additionalProperties: TEXT };
const ANYTHING: JsonSchema = { type: "object" };
const OBJECTS: JsonSchema = { type: "array", items: ANYTHING };
const NAMES: JsonSchema = { type: "array", items: { type: "string", minLength: 1 } };
const NAMESPACES: JsonSchema = {
  type: "array",
  items: { type: "string", pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" },
};
const COUNT: JsonSchema = { type: "integer", minimum: 0 };

/** An object that has these keys and no others. Helm removes keys whose value is null, so none is required. */
function only(properties: Readonly<Record<string, JsonSchema>>, about?: string): JsonSchema {
  return {
    ...(about === undefined ? {} : { description: about }),
    type: "object",
    additionalProperties: false,
    properties,
  };
}

function choice(...values: readonly string[]): JsonSchema {
  return { enum: values };
}

/** Names as the API server accepts them; empty means none or the default. */
const NAME: JsonSchema = {
  type: "string",
  maxLength: 253,
  pattern: "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
};
/** A name from which those of Services are made. */
const LABEL_NAME: JsonSchema = {
  type: "string",
  maxLength: 63,
  pattern: "^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
};
/** Labels or annotations, whose names the API server accepts. */
const named = (values: JsonSchema): JsonSchema => ({
  type: "object",
  patternProperties: {
    "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$":
      values,
  },
  additionalProperties: false,
});
const ANNOTATIONS = named(TEXT);
const LABELS = named({
  type: "string",
  maxLength: 63,
  pattern: "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
});

const QUANTITY: JsonSchema = {
  type: ["string", "number"],
  pattern: "^[0-9]+([.][0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$",
};
const QUANTITIES: JsonSchema = { type: "object", additionalProperties: QUANTITY };
const RESOURCES = only({ requests: QUANTITIES, limits: QUANTITIES });

const IMAGE = only({
  registry: TEXT,
  repository: { type: "string", minLength: 1 },
  tag: { type: "string", pattern: "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$" },
  digest: { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
  pullPolicy: choice("Always", "IfNotPresent", "Never"),
  pullSecrets: NAMES,
});

/** The fields of Kubernetes' Toleration, PodAffinity and so on: the API server would refuse others only when it is asked. */
const TOLERATION = only({
  key: TEXT,
  operator: choice("Exists", "Equal"),
  value: TEXT,
  effect: choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
  tolerationSeconds: { type: "integer" },
});
const SPREAD: JsonSchema = {
  ...only({
    maxSkew: { type: "integer", minimum: 1 },
    topologyKey: { type: "string", minLength: 1 },
    whenUnsatisfiable: choice("DoNotSchedule", "ScheduleAnyway"),
    labelSelector: ANYTHING,
    minDomains: { type: "integer", minimum: 1 },
    matchLabelKeys: NAMES,
    nodeAffinityPolicy: choice("Honor", "Ignore"),
    nodeTaintsPolicy: choice("Honor", "Ignore"),
  }),
  required: ["maxSkew", "topologyKey", "whenUnsatisfiable"],
};
const VARIABLE: JsonSchema = {
  ...only({ name: { type: "string", minLength: 1 }, value: TEXT, valueFrom: ANYTHING }),
  required: ["name"],
};
const MOUNT: JsonSchema = {
  ...only({
    name: { type: "string", minLength: 1 },
    mountPath: { type: "string", minLength: 1 },
    subPath: TEXT,
    subPathExpr: TEXT,
    readOnly: BOOL,
    recursiveReadOnly: TEXT,
    mountPropagation: TEXT,
  }),
  required: ["name", "mountPath"],
};
/** Kinds of volumes are too many to list. */
const VOLUME: JsonSchema = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string", maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" },
  },
};

/** Values that every workload has. */
const PLACEMENT = {
  priorityClassName: NAME,
  nodeSelector: LABELS,
  affinity: only({ nodeAffinity: ANYTHING, podAffinity: ANYTHING, podAntiAffinity: ANYTHING }),
  tolerations: { type: "array", items: TOLERATION },
} as const;

const WORKLOAD = {
  ...PLACEMENT,
  resources: RESOURCES,
  podAnnotations: ANNOTATIONS,
  podLabels: LABELS,
  topologySpreadConstraints: { type: "array", items: SPREAD },
  extraEnv: { type: "array", items: VARIABLE },
} as const;

const MOUNTED = {
  extraVolumes: { type: "array", items: VOLUME },
  extraVolumeMounts: { type: "array", items: MOUNT },
  terminationGracePeriodSeconds: COUNT,
} as const;

const BUDGET = only({
  enabled: BOOL,
  maxUnavailable: { type: ["integer", "string"], minimum: 1, pattern: "^[0-9]+%$" },
});

const CERTIFICATE = only({ secretName: NAME, authority: BOOL, certificate: BOOL });

function certificates(...uses: readonly string[]): JsonSchema {
  return only(Object.fromEntries(uses.map((use) => [use, CERTIFICATE])));
}

const MONITOR = only({
  enabled: BOOL,
  interval: { type: "string", pattern: "^[0-9]+(ms|s|m|h)$" },
  labels: LABELS,
});

/** Folder of the charts that the chart `sluice` consists of, from the root of the repository. */
export const SUBCHARTS = "deploy/charts/sluice/charts";

const GLOBAL = {
  // Other charts of a release have values here, too.
  type: "object",
  properties: {
    sluice: only(
      {
        image: IMAGE,
        etcd: only({ enabled: BOOL }),
        prometheus: only({ enabled: BOOL }),
      },
      "What all charts of Sluice in a release share.",
    ),
  },
} as const;

const COMMON = {
  // Conditions of an umbrella chart.
  enabled: BOOL,
  global: GLOBAL,
  image: IMAGE,
  commonLabels: LABELS,
  fullnameOverride: LABEL_NAME,
  service: only({ annotations: ANNOTATIONS }),
  serviceAccount: only({ name: NAME, annotations: ANNOTATIONS }),
  prometheusRule: only({ enabled: BOOL, labels: LABELS }),
  dashboard: only({ enabled: BOOL, labels: LABELS, annotations: ANNOTATIONS }),
  "sluice-library": ANYTHING,
} as const;

const REFERENCE = only({
  name: { type: "string", minLength: 1 },
  key: { type: "string", minLength: 1 },
});

/** True if a value may hold a password: it is a secret, or an address that takes a user and a password. */
function mayBeSecret(row: Row): boolean {
  if (row.kind === "object") return false;
  if (row.kind === "objects") return secretPaths(row.table).length > 0;
  return (
    row.secret === true ||
    (row.kind === "string" && (row.format === address || row.format === proxyAddress))
  );
}

/** Keys of a tree that are secret, by path; `[]` stands for the items of a list. */
function secretPaths(table: Table, path = ""): readonly string[] {
  return Object.entries(table.rows).flatMap(([key, row]) => {
    const here = joined(path, key);
    if (row.kind === "object") return secretPaths(row.table, here);
    if (row.kind === "objects") return secretPaths(row.table, `${here}.[]`);
    return row.secret === true ? [here] : [];
  });
}

const byKey = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]) =>
  one < other ? -1 : 1;

/** The tree of references to secrets; undefined where a table has none. */
function references(table: Table): Readonly<Record<string, JsonSchema>> | undefined {
  const found: Record<string, JsonSchema> = {};
  for (const [key, row] of Object.entries(table.rows).toSorted(byKey)) {
    const inner = row.kind === "object" ? references(row.table) : undefined;
    if (inner !== undefined) found[key] = only(inner);
    else if (mayBeSecret(row)) found[key] = REFERENCE;
  }
  return Object.keys(found).length === 0 ? undefined : found;
}

/** The schema of a configuration tree, without a head, and what it refers to. */
function configuration(process: ProcessName): {
  readonly config: JsonSchema;
  readonly definitions: unknown;
} {
  const { $schema: _, title: __, $defs: definitions, ...config } = configSchema(process);
  return { config, definitions };
}

/** Helm 3 before 3.18 knows nothing newer than draft 7. */
function valuesSchema(
  title: string,
  properties: Readonly<Record<string, JsonSchema>>,
  definitions: unknown = {},
): string {
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: `Values of the chart ${title}`,
    description: "Generated by `make docs`; edits are lost.",
    ...only(properties),
    definitions,
  };
  return `${JSON.stringify(schema, undefined, 1).replaceAll("#/$defs/", "#/definitions/")}\n`;
}

function agentValues(): string {
  const { config, definitions } = configuration("agent");
  const fluxNinjaExtension = only({
    create: BOOL,
    value: TEXT,
    secretKeyRef: only({ name: TEXT, key: TEXT }),
  });
  const agent = only({
    ...WORKLOAD,
    ...MOUNTED,
    config,
    secrets: only({ ...references(PROCESSES.agent.table), fluxNinjaExtension }),
    replicaCount: COUNT,
    create: BOOL,
    namespaceScoped: BOOL,
    sidecar: only({ enabled: BOOL, enableNamespacesByDefault: BOOL }),
    controllerCert: only({ cmName: TEXT, certFileName: TEXT }),
  });
  const values = {
    ...COMMON,
    installationMode: choice(
      "",
      "KUBERNETES_SIDECAR",
      "KUBERNETES_DAEMONSET",
      "KUBERNETES_DEPLOYMENT",
    ),
    agent,
    sidecars: only({
      configMap: TEXT,
      injectorAccount: TEXT,
      envoy: only({
        inject: BOOL,
        image: TEXT,
        port: { type: "integer", minimum: 1, maximum: 65_535 },
        concurrency: { type: "integer", minimum: 1, maximum: 1_024 },
        client_baggage: { enum: ["ignore", "believe"] },
        resources: RESOURCES,
      }),
    }),
    tls: certificates("etcd", "prometheus", "redis", "server", "peers", "controller"),
    podDisruptionBudget: BUDGET,
    networkPolicy: only({ enabled: BOOL, clients: OBJECTS, metrics: OBJECTS }),
    podMonitor: MONITOR,
    operator: ANYTHING,
  };
  return valuesSchema("sluice-agent", values, definitions);
}

function controllerValues(): string {
  const { config, definitions } = configuration("controller");
  const controller = only({
    ...WORKLOAD,
    ...MOUNTED,
    config,
    secrets: only(references(PROCESSES.controller.table) ?? {}),
    replicaCount: COUNT,
    policies: {
      type: "object",
      additionalProperties: false,
      patternProperties: { "^[A-Za-z0-9_-][A-Za-z0-9_.-]*[.](yaml|yml|json)$": TEXT },
    },
    policyConfigMaps: NAMES,
    podDisruptionBudget: BUDGET,
    namespaceScoped: BOOL,
  });
  const injector = only({
    ...WORKLOAD,
    enabled: BOOL,
    name: { type: "string", minLength: 1, maxLength: 40 },
    sidecars: { type: "string", minLength: 1 },
    replicaCount: COUNT,
    failurePolicy: choice("Ignore", "Fail"),
    certManager: only({ enabled: BOOL, issuerRef: TEXTS }),
    podDisruptionBudget: BUDGET,
  });
  const values = {
    ...COMMON,
    controller,
    injector,
    tls: certificates("etcd", "prometheus", "server"),
    networkPolicy: only({ enabled: BOOL, clients: OBJECTS, metrics: OBJECTS, apiServer: OBJECTS }),
    serviceMonitor: MONITOR,
    etcd: only({ enabled: BOOL }),
    prometheus: only({ enabled: BOOL }),
    autoScale: only({
      enabled: BOOL,
      resources: {
        type: "array",
        minItems: 1,
        // Of the kinds without a group, only one can be scaled.
        items: {
          type: "string",
          pattern: "^([a-z0-9-]+[.][a-z0-9.-]+|replicationcontrollers)$",
        },
      },
      namespaces: NAMESPACES,
    }),
    gatewayApi: only({
      enabled: BOOL,
      agents: { type: "string", pattern: serviceAddress.pattern ?? "" },
      failOpen: BOOL,
    }),
    policies: only({
      crWatcher: only({
        enabled: BOOL,
        webhook: only({ enabled: BOOL, caBundle: TEXT, certificate: TEXT }),
      }),
      namespaces: { ...NAMESPACES, uniqueItems: true },
      namespaceQuota: { type: "integer", minimum: 1 },
    }),
  };
  return valuesSchema("sluice-controller", values, definitions);
}

function umbrellaValues(): string {
  const server = { ...PLACEMENT, image: IMAGE, resources: RESOURCES, enabled: BOOL } as const;
  const persistence = only({ enabled: BOOL, size: QUANTITY, storageClass: TEXT });
  return valuesSchema("sluice", {
    global: GLOBAL,
    // Each is validated by the schema of its own chart.
    "sluice-agent": ANYTHING,
    "sluice-controller": ANYTHING,
    "sluice-library": ANYTHING,
    etcd: only({ ...server, persistence }),
    prometheus: only({ ...server, retention: { type: "string", pattern: "^[0-9]+[smhdwy]$" } }),
    commonLabels: LABELS,
  });
}

function secretKeys(process: ProcessName): string {
  const paths = secretPaths(PROCESSES[process].table).toSorted();
  return `${JSON.stringify(paths, undefined, 1)}\n`;
}

/** The name of a key in the variables of a process, without their prefix. */
const variableOf = (path: string) => path.toUpperCase().replaceAll(".", "_");

interface ChartRules {
  /** Path of the list whose items these are about; empty for the tree itself. */
  readonly list: string;
  /** Conditions have names of variables, and the text of the default where a rule reads it. */
  readonly rules: readonly object[];
  /** Each with its bounds in milliseconds. */
  readonly durations: readonly object[];
}

/** What the loader of a configuration checks and a schema cannot say, for templates. */
function rulesOf(table: Table, list = ""): readonly ChartRules[] {
  const rules: object[] = [];
  const durations: object[] = [];
  const lists: ChartRules[] = [];
  const walk = ({ rows, rules: own = [] }: Table, path: string) => {
    const defaults = defaultsOfTable(rows);
    for (const [key, row] of Object.entries(rows)) {
      const here = joined(path, key);
      if (row.kind === "object") walk(row.table, here);
      if (row.kind === "objects") lists.push(...rulesOf(row.table, joined(list, here)));
      if (row.kind === "duration")
        // The schema knows what is above 0.
        durations.push({
          path: here,
          name: variableOf(here),
          least: row.least === "above 0s" ? 0 : MIN_MS[row.least],
          most: mostOf(row),
          wanted: `${wantedOf(row)}, at most ${row.most ?? "576h"}`,
        });
    }
    // After those of the objects inside, which the loader builds first.
    for (const { key, when, wanted, because } of own)
      rules.push({
        path: joined(path, key),
        wanted: because === undefined ? wanted : `${wanted}, because ${because} is set`,
        when: when.map(([name, is, of]) => ({
          name: variableOf(joined(path, name)),
          is,
          of: is === "below" ? variableOf(joined(path, of)) : of,
          default: textAt(defaults, name),
        })),
      });
  };
  walk(table, "");
  return [{ list, rules, durations }, ...lists];
}

function defaultsOfTable(rows: Table["rows"]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(rows).map(([key, row]) => [
      key,
      row.kind === "object" ? defaultsOfTable(row.table.rows) : "default" in row ? row.default : [],
    ]),
  );
}

function ruleText(process: ProcessName): string {
  return `${JSON.stringify(rulesOf(PROCESSES[process].table), undefined, 1)}\n`;
}

/** The values of a chart, which its templates cannot tell from those that somebody set. */
function defaultsOf(chart: string): string {
  const text = readFileSync(`${SUBCHARTS}/${chart}/values.yaml`, "utf8");
  return `${JSON.stringify(parse(text), undefined, 1)}\n`;
}

/** By path from the root of the repository, each with the function that returns its text. */
export const CHART_FILES: Readonly<Record<string, () => string>> = {
  [`${SUBCHARTS}/sluice-agent/values.schema.json`]: agentValues,
  [`${SUBCHARTS}/sluice-agent/files/defaults.json`]: () => defaultsOf("sluice-agent"),
  [`${SUBCHARTS}/sluice-agent/files/rules.json`]: () => ruleText("agent"),
  [`${SUBCHARTS}/sluice-agent/files/secrets.json`]: () => secretKeys("agent"),
  [`${SUBCHARTS}/sluice-controller/values.schema.json`]: controllerValues,
  [`${SUBCHARTS}/sluice-controller/files/rules.json`]: () => ruleText("controller"),
  [`${SUBCHARTS}/sluice-controller/files/secrets.json`]: () => secretKeys("controller"),
  "deploy/charts/sluice/values.schema.json": umbrellaValues,
};
