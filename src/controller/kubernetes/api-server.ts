// The controller's way to the API server of its cluster: one client for all of its parts, and one log line for an outage that
// all of them notice.

import { type Fault, isServerAway } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { ControllerConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { KubeClient } from "#kube/api/client.ts";

/** A part of the controller that follows objects of the cluster, as the log names it. */
export interface ClusterPart {
  /** Words before the reason of a fault. */
  readonly fails: string;
  /** Words when the fault is over. */
  readonly works: string;
}

/** Faults with which an API server that has just started refuses what it will answer soon. */
const RETURNING: readonly Fault["code"][] = ["RESOURCE_EXHAUSTED", "OUT_OF_RANGE"];

export class ApiServer {
  readonly #process: Pick<SluiceProcess, "env" | "clock">;
  readonly #settings: Pick<ControllerConfig, "kubernetes_client" | "client">;
  readonly #log: Log;
  #client: Promise<KubeClient> | undefined;
  /** Parts with a fault, and whether it is the server that is away. */
  readonly #faulty = new Map<ClusterPart, "away" | "own">();

  /** Calls nothing yet. Ends with the process. */
  constructor(
    process: Pick<SluiceProcess, "env" | "clock" | "log" | "scope">,
    settings: Pick<ControllerConfig, "kubernetes_client" | "client">,
  ) {
    this.#process = process;
    this.#settings = settings;
    this.#log = process.log.child("kubernetes");
    process.scope.add("Kubernetes client", async () => {
      const client = await this.#client?.catch(() => undefined);
      await client?.close();
    });
  }

  /**
   * The client, which is made when the first part asks for it.
   * @throws Fault when it is unknown where the API server is, or its certificates cannot be used
   */
  client(): Promise<KubeClient> {
    this.#client ??= this.#open().catch((thrown: unknown) => {
      this.#client = undefined;
      throw thrown;
    });
    return this.#client;
  }

  /** Takes the fault for which a part does not work, or undefined when it works. */
  report(part: ClusterPart, fault: Fault | undefined): void {
    const before = this.#faulty.get(part);
    const wasAway = this.#isAway;
    if (fault === undefined) {
      this.#faulty.delete(part);
      if (before === "own") this.#log.info({}, part.works);
    } else if (isServerAway(fault) || (before === "away" && RETURNING.includes(fault.code))) {
      this.#faulty.set(part, "away");
      if (!wasAway)
        this.#log.warn({}, `the API server is away, and what is known stays: ${fault.message}`);
    } else {
      this.#faulty.set(part, "own");
      if (before !== "own") this.#log.warn({}, `${part.fails}: ${fault.message}`);
    }
    if (wasAway && !this.#isAway) this.#log.info({}, "the API server answers again");
  }

  /** A part has ended. */
  forget(part: ClusterPart): void {
    this.#faulty.delete(part);
  }

  get #isAway(): boolean {
    return [...this.#faulty.values()].includes("away");
  }

  async #open(): Promise<KubeClient> {
    const { env, clock } = this.#process;
    const { http_client: settings } = this.#settings.kubernetes_client;
    const { proxy } = this.#settings.client;
    const [{ findAccess }, { KubeClient }] = await Promise.all([
      import("#kube/api/access.ts"),
      import("#kube/api/client.ts"),
    ]);
    const access = await findAccess(env, clock);
    return new KubeClient({ access, settings, proxy, env, clock, log: this.#log });
  }
}
