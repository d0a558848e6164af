// The connection of a process to its API server: one client for all parts of the process, and one log line for an outage
// that several of them notice.

import { type Fault, isServerAway } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient, KubeClientOptions } from "./client.ts";

/** A part of the process that works with objects of the cluster, in the words of the log. */
export interface ClusterPart {
  /** Precedes the reason of a fault. */
  readonly fails: string;
  /** Says that the fault is over. */
  readonly works: string;
}

/** An API server that has just started refuses requests with these codes for a while. */
const RETURNING: readonly Fault["code"][] = ["RESOURCE_EXHAUSTED", "OUT_OF_RANGE"];

interface ApiServerOptions extends Omit<KubeClientOptions, "access"> {
  readonly log: Log;
}

export class ApiServer {
  readonly #options: ApiServerOptions;
  #client: Promise<KubeClient> | undefined;
  /** The parts that have a fault: because the server is away, or for a reason of their own. */
  readonly #faulty = new Map<ClusterPart, "away" | "own">();

  /** Opens no connection. */
  constructor(options: ApiServerOptions) {
    this.#options = options;
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    await client?.close();
  }

  /**
   * The client, created on the first call.
   * @throws Fault when the address of the API server is unknown, or its certificates cannot be used
   */
  client(): Promise<KubeClient> {
    this.#client ??= this.#open().catch((thrown: unknown) => {
      this.#client = undefined;
      throw thrown;
    });
    return this.#client;
  }

  /** Reports the fault of a part; undefined when it works. */
  report(part: ClusterPart, fault: Fault | undefined): void {
    const before = this.#faulty.get(part);
    const wasAway = this.#isAway;
    const { log } = this.#options;
    if (fault === undefined) {
      this.#faulty.delete(part);
      if (before === "own") log.info({}, part.works);
    } else if (isServerAway(fault) || (before === "away" && RETURNING.includes(fault.code))) {
      this.#faulty.set(part, "away");
      if (!wasAway)
        log.warn(
          {},
          `the API server is away, and the last known state stays in use: ${fault.message}`,
        );
    } else {
      this.#faulty.set(part, "own");
      if (before !== "own") log.warn({}, `${part.fails}: ${fault.message}`);
    }
    if (wasAway && !this.#isAway) log.info({}, "the API server answers again");
  }

  /** A part has ended. */
  forget(part: ClusterPart): void {
    this.#faulty.delete(part);
  }

  get #isAway(): boolean {
    return [...this.#faulty.values()].includes("away");
  }

  async #open(): Promise<KubeClient> {
    const { env, clock } = this.#options;
    // Loaded on first use: most controllers run without Kubernetes.
    const [{ findAccess }, { KubeClient }] = await Promise.all([
      import("./access.ts"),
      import("./client.ts"),
    ]);
    return new KubeClient({ ...this.#options, access: await findAccess(env, clock) });
  }
}
