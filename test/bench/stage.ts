// The servers of one run of the bench. Each starts when it is first asked for and lives until the end, so that
// all of them take turns within one run.

import { join } from "node:path";
import type { Target } from "./lane.ts";
import { type Folders, writePolicies } from "./policies.ts";
import { REPLY } from "./rounds.ts";
import {
  freeTarget,
  type Noop,
  type Running,
  type Sluice,
  startNoop,
  startSluice,
  type Transport,
} from "./servers.ts";

export type Wire = "tcp" | "unix";

export class Stage {
  readonly folders: Folders;
  readonly #running = new Map<string, Promise<Running>>();
  readonly #sluices = new Map<string, Promise<Sluice>>();

  constructor(otherPolicies: number) {
    this.folders = writePolicies(otherPolicies);
  }

  noop(kind: Noop, wire: Wire = "tcp"): Promise<Running> {
    const reply = kind === "http" ? REPLY.json : REPLY.auth;
    return remembered(this.#running, `${kind}-${wire}`, async (name) =>
      startNoop(kind, await this.#target(name, wire), reply),
    );
  }

  sluice(transport: Transport = "own", wire: Wire = "tcp", policies: "one" | "many" = "one") {
    return remembered(this.#sluices, `sluice-${transport}-${wire}-${policies}`, async (name) =>
      startSluice({
        target: await this.#target(name, wire),
        policies: this.folders[policies],
        transport,
      }),
    );
  }

  async close(): Promise<void> {
    const servers = await Promise.allSettled([
      ...this.#running.values(),
      ...this.#sluices.values(),
    ]);
    await Promise.all(
      servers.map((one) => (one.status === "fulfilled" ? one.value.stop() : undefined)),
    );
    this.folders.remove();
  }

  async #target(name: string, wire: Wire): Promise<Target> {
    return wire === "unix" ? `unix:${join(this.folders.root, name)}` : freeTarget();
  }
}

function remembered<T>(
  servers: Map<string, Promise<T>>,
  name: string,
  start: (name: string) => Promise<T>,
): Promise<T> {
  const known = servers.get(name) ?? start(name);
  servers.set(name, known);
  return known;
}
