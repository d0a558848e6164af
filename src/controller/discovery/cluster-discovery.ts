// Service discovery for agents without rights on the Kubernetes API: while this controller leads, it follows the pods and
// Services of the cluster and publishes them by address.

import type { EntityDirectory } from "#api/fleet/entities.ts";
import { Fault } from "#base/fault.ts";
import type { ControllerConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { ApiServer, ClusterPart } from "#kube/api/api-server.ts";
import type { Dependency } from "#runtime/status/health.ts";
import type { Store } from "#store/store.ts";
import { DISCOVERY } from "#sync/keys.ts";
import { EntityPublisher } from "./entity-publisher.ts";

export interface ClusterDiscovery {
  /** The known pods and Services; undefined if discovery is off. Throws UNAVAILABLE while this controller stands by. */
  readonly entities: EntityDirectory | undefined;
  /** Called with the leader's store when a leadership begins. The returned function ends it. */
  readonly lead: (store: Store) => () => Promise<void>;
}

const PART: ClusterPart = {
  fails: "pods and services are not followed, and the known ones stay in use",
  works: "pods and services are followed again",
};
const STANDING_BY = "the controller that leads discovers pods and services";

/** Before the controller leads, nothing is called and no code for Kubernetes is loaded. */
export function clusterDiscovery(
  process: SluiceProcess,
  settings: ControllerConfig,
  apiServer: ApiServer,
): ClusterDiscovery {
  const log = process.log.child("discovery");
  if (!settings.service_discovery.kubernetes.enabled) {
    const lead = (store: Store) => {
      const ended = removePublished(store, log).catch((thrown: unknown) => {
        const why = Fault.from(thrown).message;
        log.warn({}, `services that an earlier leader published may still be there: ${why}`);
      });
      return () => ended;
    };
    return { entities: undefined, lead };
  }
  const dependency = process.health.dependency("discovery");
  dependency.ok(STANDING_BY);
  let term: Term | undefined;
  process.metrics.add({
    collect(to) {
      if (term === undefined) return;
      const { entities, publisher } = term;
      to.number("sluice_discovery_addresses", [], entities?.size ?? 0);
      to.number("sluice_discovery_addresses_left_out", [], entities?.leftOut ?? 0);
      to.number("sluice_discovery_published", [], publisher.published);
    },
  });
  const known = (): EntityDirectory => {
    if (term?.entities !== undefined) return term.entities;
    throw new Fault("UNAVAILABLE", `this controller knows none at present: ${STANDING_BY}`);
  };
  return {
    entities: {
      at: (address) => known().at(address),
      all: () => known().all(),
      byName: () => known().byName(),
    },
    lead(store) {
      const own = new Term({ process: { ...process, store, log }, apiServer, dependency });
      term = own;
      return async () => {
        term = undefined;
        await own.close();
        dependency.ok(STANDING_BY);
      };
    },
  };
}

async function removePublished(store: Store, log: SluiceProcess["log"]): Promise<void> {
  const { entries } = await store.list(DISCOVERY);
  if (entries.length === 0) return;
  await store.commit(entries.map(({ key }) => ({ kind: "delete", key }) as const));
  const why = "service_discovery.kubernetes.enabled is false here";
  log.info({ keys: entries.length }, `removed what an earlier leader discovered: ${why}`);
}

interface TermOptions {
  readonly process: SluiceProcess;
  readonly apiServer: ApiServer;
  readonly dependency: Dependency;
}

/** One leadership. */
class Term {
  readonly #options: TermOptions;
  readonly #over = Promise.withResolvers<void>();
  readonly #ended: Promise<void>;
  readonly publisher: EntityPublisher;
  #discovery: Awaited<ReturnType<typeof open>> | undefined;
  #isClosed = false;
  /** The faults of each part. */
  readonly #faults = new Map<"cluster" | "store", Fault>();

  constructor(options: TermOptions) {
    this.#options = options;
    const { store, clock, log } = options.process;
    this.publisher = new EntityPublisher({
      store,
      clock,
      log,
      at: (address) => this.entities?.at(address),
      written: (fault) => this.#report("store", fault),
    });
    options.dependency.ok("the pods and services of the cluster are being listed");
    this.#ended = this.#run();
  }

  get entities() {
    return this.#discovery?.entities;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#options.apiServer.forget(PART);
    this.#over.resolve();
    await this.publisher.close();
    await this.#ended;
  }

  async #run(): Promise<void> {
    try {
      this.#discovery = await open(this.#options, {
        followed: (fault) => {
          if (!this.#isClosed) this.#options.apiServer.report(PART, fault);
          this.#report("cluster", fault);
        },
        changed: (address) => this.publisher.change(address),
      });
    } catch (thrown) {
      // The policies must run anyway.
      const fault = Fault.from(thrown);
      this.#options.process.log.error({}, `no pods and services are discovered: ${fault.message}`);
      this.#report("cluster", fault);
      return;
    }
    const discovery = this.#discovery;
    // Nothing is written or deleted before the whole cluster is known.
    const all = discovery.listed.then(() => true);
    const isListed = await Promise.race([all, this.#over.promise.then(() => false)]);
    if (isListed) {
      await this.publisher
        .begin(() => discovery.entities.all())
        .catch((thrown: unknown) => this.#report("store", Fault.from(thrown)));
    }
    await this.#over.promise;
    await discovery.close();
  }

  #report(part: "cluster" | "store", fault: Fault | undefined): void {
    const { dependency } = this.#options;
    if (this.#isClosed) return;
    if (fault === undefined) this.#faults.delete(part);
    else this.#faults.set(part, fault);
    const cluster = this.#faults.get("cluster");
    const store = this.#faults.get("store");
    if (cluster !== undefined)
      dependency.degraded(`pods and services are not followed: ${cluster.message}`);
    else if (store !== undefined)
      dependency.degraded(`services are not published, will be retried: ${store.message}`);
    else dependency.ok("the pods and services of the cluster are followed and published");
  }
}

async function open(
  { process, apiServer }: TermOptions,
  told: {
    readonly followed: (fault: Fault | undefined) => void;
    readonly changed: (address: string) => void;
  },
) {
  const { clock, chance, log } = process;
  const client = await apiServer.client();
  const { startDiscovery } = await import("#kube/discovery/discovery.ts");
  return startDiscovery({ client, clock, chance, log, ...told });
}
