// An Envoy bootstrap of deploy/envoy for a test: the file that users copy, with its addresses replaced by free ones
// and with the edits that a test makes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

const FOLDER = join(import.meta.dirname, "../../../deploy/envoy");

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
  logFields: [...MANAGER, "access_log", 0, "typed_config", "log_format", "json_format"],
} as const satisfies Record<string, Path>;

export interface Addresses {
  /** Address of the agent, `host:port` or `unix:/path`. Its form selects the bootstrap file. */
  readonly agent: string;
  /** Address of the other agent, `host:port`, for the bootstrap with two of them. */
  readonly otherAgent?: string;
  /** Port of the service behind Envoy. */
  readonly service: number;
}

export class Bootstrap {
  readonly #root: unknown;

  constructor(addresses: Addresses) {
    this.#root = parse(bootstrapText(addresses));
  }

  /** Puts the access log of this file in the place of the bootstrap's own. */
  accessLogOf(file: "access-log-slim.yaml" | "access-log-grpc.yaml"): void {
    const { access_log } = parse(readFileSync(join(FOLDER, file), "utf8"));
    this.set(AT.accessLog, access_log);
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

/** The text of the bootstrap. Fails when a documented address is missing from the file. */
function bootstrapText({ agent, otherAgent, service }: Addresses): string {
  const unix = agent.startsWith("unix:");
  const tcp = otherAgent === undefined ? "sidecar.yaml" : "two-agents.yaml";
  const file = join(FOLDER, unix ? "sidecar-unix.yaml" : tcp);
  let text = readFileSync(file, "utf8");
  const replace = (documented: string, by: string) => {
    const parts = text.split(documented);
    assert.equal(parts.length, 2, `${file} says "${documented}" once`);
    text = parts.join(by);
  };
  replace(socket("127.0.0.1", 10_000), socket("127.0.0.1", 0));
  replace(socket("127.0.0.1", 9901), socket("127.0.0.1", 0));
  replace(socket("127.0.0.1", 9000), socket("127.0.0.1", service));
  if (unix) replace("pipe: { path: /run/sluice/sluice.sock }", `pipe: { path: ${agent.slice(5)} }`);
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
