// The servers of one run of the bench. Each starts when a figure first needs it and lives until the end, so that
// all of them can take turns within one run.

import { join } from "node:path";
import type { Target } from "../load/connection.ts";
import { REPLY } from "../measure/rounds.ts";
import { type Folders, writePolicies } from "./policies.ts";
import { freeTarget, type Noop, type Running, startNoop } from "./processes.ts";
import { type Sluice, startSluice, type Transport } from "./sluice.ts";

export type Socket = "tcp" | "unix";

export class ServerPool {
  readonly folders: Folders;
  readonly #noops = new Map<string, Promise<Running>>();
  readonly #sluices = new Map<string, Promise<Sluice>>();

  /** `otherPolicies` is the number of policies that no check meets in the folder `many`. */
  constructor(otherPolicies: number) {
    this.folders = writePolicies(otherPolicies);
  }

  noop(kind: Noop, socket: Socket = "tcp"): Promise<Running> {
    const reply = kind === "http" ? REPLY.json : REPLY.auth;
    return startOnce(this.#noops, `${kind}-${socket}`, async (name) =>
      startNoop(kind, await this.#target(name, socket), reply),
    );
  }

  sluice(
    transport: Transport = "own",
    socket: Socket = "tcp",
    policies: "one" | "ten" | "many" = "one",
  ): Promise<Sluice> {
    return startOnce(this.#sluices, `sluice-${transport}-${socket}-${policies}`, async (name) =>
      startSluice({
        target: await this.#target(name, socket),
        policies: this.folders[policies],
        transport,
      }),
    );
  }

  async close(): Promise<void> {
    const servers = await Promise.allSettled([...this.#noops.values(), ...this.#sluices.values()]);
    await Promise.all(
      servers.map((one) => (one.status === "fulfilled" ? one.value.stop() : undefined)),
    );
    this.folders.remove();
  }

  async #target(name: string, socket: Socket): Promise<Target> {
    return socket === "unix" ? `unix:${join(this.folders.root, name)}` : freeTarget();
  }
}

function startOnce<T>(
  servers: Map<string, Promise<T>>,
  name: string,
  start: (name: string) => Promise<T>,
): Promise<T> {
  const known = servers.get(name) ?? start(name);
  servers.set(name, known);
  return known;
}
