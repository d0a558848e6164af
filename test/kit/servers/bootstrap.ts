// An Envoy bootstrap that Sluice ships, for a test: the file that users copy, or what an injected pod gets, with its
// addresses replaced by free ones and with the edits that a test makes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import {
  type EnvoyTraffic,
  envoyContainer,
  TRAFFIC,
} from "../../../src/injector/mutation/envoy.ts";
import type { ProbeListener } from "../../../src/injector/mutation/probes.ts";
import { objectsIn } from "../kube/client.ts";

const DEPLOY = join(import.meta.dirname, "../../../deploy");
const FOLDER = join(DEPLOY, "envoy");

/** Every bootstrap that we ship: files of deploy/envoy, the ConfigMap of deploy/kubernetes, and that of injected pods. */
export const SHIPPED = [
  "sidecar.yaml",
  "sidecar-unix.yaml",
  "two-agents.yaml",
  "kubernetes",
  "injected",
] as const;
export type Shipped = (typeof SHIPPED)[number];
/** Access logs that take the place of the one in a bootstrap. */
export const ACCESS_LOGS = ["access-log-slim.yaml", "access-log-grpc.yaml"] as const;

export type Path = readonly (string | number)[];

const MANAGER: Path = [
  "static_resources",
  "listeners",
  0,
  "filter_chains",
  0,
  "filters",
  0,
  "typed_config",
];

/** Paths of the parts that tests edit. */
export const AT = {
  filters: [...MANAGER, "http_filters"],
  extAuthz: [...MANAGER, "http_filters", 0, "typed_config"],
  accessLog: [...MANAGER, "access_log"],
  /** The routes of gRPC, of requests that only read, and of all others. */
  routes: [...MANAGER, "route_config", "virtual_hosts", 0, "routes"],
  logFields: [...MANAGER, "access_log", 0, "typed_config", "log_format", "json_format"],
} as const satisfies Record<string, Path>;

export interface Addresses {
  /** The default is the file of deploy/envoy that fits the addresses. */
  readonly bootstrap?: Shipped;
  /** Address of the agent, `host:port` or `unix:/path`. */
  readonly agent: string;
  /** Address of the other agent, `host:port`, for the bootstrap with two of them. */
  readonly otherAgent?: string;
  /** What an injected Envoy does with requests, where it differs from the defaults. */
  readonly traffic?: Partial<EnvoyTraffic>;
  /** What kubelets ask of an injected Envoy. */
  readonly probes?: ProbeListener;
  /** Port of the service behind Envoy. */
  readonly service: number;
}

export class Bootstrap {
  readonly #root: unknown;
  readonly #args: readonly string[];

  constructor(addresses: Addresses) {
    const { text, args } = shipped(addresses);
    this.#root = parse(text);
    this.#args = args;
  }

  /** Envoy's arguments, with the bootstrap in the form in which its users hand it over. */
  get args(): readonly string[] {
    return ["--config-yaml", this.toString(), ...this.#args];
  }

  /** Puts the access log of this file in the place of the bootstrap's own. */
  accessLogOf(file: (typeof ACCESS_LOGS)[number]): void {
    const { access_log } = parse(readFileSync(join(FOLDER, file), "utf8"));
    this.set(AT.accessLog, access_log);
  }

  get(path: Path): unknown {
    const [holder, last] = this.#holder(path);
    return Reflect.get(holder, last);
  }

  /** As the bootstraps say for services that know only HTTP/1.1, whatever their clients speak. */
  serviceSpeaksHttp1(): void {
    const protocol = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    this.set(["static_resources", "clusters", 1, "typed_extension_protocol_options"], {
      [protocol]: {
        "@type": `type.googleapis.com/${protocol}`,
        explicit_http_config: { http_protocol_options: {} },
      },
    });
  }

  /** Sets the value at the path. The objects on the way must exist. */
  set(path: Path, value: unknown): void {
    const [holder, last] = this.#holder(path);
    Reflect.set(holder, last, value);
  }

  remove(path: Path): void {
    const [holder, last] = this.#holder(path);
    assert.ok(Reflect.deleteProperty(holder, last));
  }

  /** Inserts a value into the list at the path, before the element of that index. */
  insert(path: Path, index: number, value: unknown): void {
    const [holder, last] = this.#holder(path);
    const list: unknown = Reflect.get(holder, last);
    assert.ok(Array.isArray(list), `${path.join(".")} is a list`);
    list.splice(index, 0, value);
  }

  toString(): string {
    return JSON.stringify(this.#root, undefined, 2);
  }

  #holder(path: Path): readonly [object, string | number] {
    let at: unknown = this.#root;
    for (const key of path.slice(0, -1)) {
      assert.ok(typeof at === "object" && at !== null && key in at, `${path.join(".")} exists`);
      at = Reflect.get(at, key);
    }
    assert.ok(typeof at === "object" && at !== null, `${path.join(".")} exists`);
    return [at, path.at(-1) ?? ""];
  }
}

interface Text {
  readonly text: string;
  readonly args: readonly string[];
}

function shipped(addresses: Addresses): Text {
  const { bootstrap = fitting(addresses) } = addresses;
  return bootstrap === "injected"
    ? injected(addresses)
    : {
        text: replaced(textOf(bootstrap), bootstrap, addresses),
        args: ["--disable-hot-restart", "--concurrency", "1"],
      };
}

function fitting({ agent, otherAgent }: Addresses): Shipped {
  if (agent.startsWith("unix:")) return "sidecar-unix.yaml";
  return otherAgent === undefined ? "sidecar.yaml" : "two-agents.yaml";
}

function textOf(bootstrap: Exclude<Shipped, "injected">): string {
  if (bootstrap !== "kubernetes") return readFileSync(join(FOLDER, bootstrap), "utf8");
  const objects = objectsIn(readFileSync(join(DEPLOY, "kubernetes/sidecar.yaml"), "utf8"));
  const text = objects.find(({ metadata }) => metadata.name === "shop-envoy")?.["data"][
    "envoy.yaml"
  ];
  assert.ok(typeof text === "string", "a ConfigMap has the bootstrap");
  // Reachable from outside the pod.
  return text.replace(socket("0.0.0.0", 10_000), socket("127.0.0.1", 10_000));
}

/** What the container of an injected pod gets, with its arguments. */
function injected({ agent, service, traffic, probes }: Addresses): Text {
  const ports = { envoy: 0, admin: 0, agent: portOf(agent), application: service, probes };
  const settings = {
    image: "envoy",
    imagePullPolicy: "",
    runAsUser: 101,
    resources: { cpuRequest: "", cpuLimit: "", memoryRequest: "", memoryLimit: "" },
    inject: true,
    port: 0,
    adminPort: 0,
    concurrency: 1,
    clientBaggage: "ignore",
    applicationSleepSeconds: 5,
  } as const;
  const container = envoyContainer(settings, ports, "IPv4", { ...TRAFFIC, ...traffic }, undefined);
  const [flag, text = "", ...args] = container["args"] as readonly string[];
  assert.equal(flag, "--config-yaml");
  return { text, args };
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(":") + 1));
}

/** Fails when a documented address is missing from the bootstrap. */
function replaced(
  documented: string,
  name: Shipped,
  { agent, otherAgent, service }: Addresses,
): string {
  let text = documented;
  const replace = (address: string, by: string, times = 1) => {
    const parts = text.split(address);
    assert.equal(parts.length - 1, times, `${name} says "${address}" so often`);
    text = parts.join(by);
  };
  replace(socket("127.0.0.1", 10_000), socket("127.0.0.1", 0));
  replace(socket("127.0.0.1", 9901), socket("127.0.0.1", 0));
  replace(socket("127.0.0.1", 9000), socket("127.0.0.1", service), 2);
  if (agent.startsWith("unix:"))
    replace("pipe: { path: /run/sluice/sluice.sock }", `pipe: { path: ${agent.slice(5)} }`);
  else {
    const own = (address: string) => {
      const [host = "", port = ""] = address.split(":");
      return socket(host, port);
    };
    replace(socket("127.0.0.1", 8080), own(agent));
    if (otherAgent !== undefined) replace(socket("127.0.0.1", 8081), own(otherAgent));
  }
  return text;
}

function socket(host: string, port: number | string): string {
  return `address: ${host}, port_value: ${port} `;
}

/** An endpoint of the cluster of agents. */
export function endpointOf(address: string): object {
  if (address.startsWith("unix:")) {
    return { endpoint: { address: { pipe: { path: address.slice(5) } } } };
  }
  const [host, port] = address.split(":");
  return {
    endpoint: { address: { socket_address: { address: host, port_value: Number(port) } } },
  };
}
