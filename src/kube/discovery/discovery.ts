// Follows the EndpointSlices and Services of the whole cluster. The last known state stays while the API server is away.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import type { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Entity } from "#base/net/entity.ts";
import type { Environment, HttpClientSettings, ProxySettings } from "#client/http-settings.ts";
import { readTextFile } from "#runtime/life/text-file.ts";
import { findAccess } from "../api/access.ts";
import { KubeClient } from "../api/client.ts";
import type { KubeObject, Resource } from "../api/objects.ts";
import { Reflector } from "../api/reflector.ts";
import { Entities } from "./entities.ts";
import {
  clusterAddressesOf,
  clusterDomainOf,
  ENDPOINT_SLICES,
  podsOf,
  SERVICES,
} from "./objects.ts";

interface DiscoveryOptions {
  readonly client: KubeClient;
  /** The domain of the cluster, such as `cluster.local`. */
  readonly domain: string;
  /** Called with undefined when both kinds of objects are followed, and with a fault when one of them is not. */
  readonly followed: (fault: Fault | undefined) => void;
  /** Called with each address whose entity may have changed. */
  readonly changed?: ((address: string) => void) | undefined;
  readonly clock: Clock;
  readonly chance: Chance;
}

type Keep = (object: KubeObject, domain: string) => readonly Entity[] | undefined;

const KINDS: readonly (readonly [Resource, Keep])[] = [
  [ENDPOINT_SLICES, podsOf],
  [SERVICES, clusterAddressesOf],
];

export class Discovery {
  readonly entities: Entities;
  readonly #reflectors: readonly Reflector<readonly Entity[]>[];
  readonly #options: DiscoveryOptions;
  /** Resolves after the first list of all objects. */
  readonly listed: Promise<unknown>;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
    const { client, domain, clock, chance, changed } = options;
    this.entities = new Entities(undefined, changed);
    const lists = KINDS.map(() => Promise.withResolvers<void>());
    this.listed = Promise.all(lists.map(({ promise }) => promise));
    this.#reflectors = KINDS.map(
      ([resource, keep], at) =>
        new Reflector({
          client,
          resource,
          keep: (object) => keep(object, domain),
          changed: ({ puts, deletes }) => {
            const { entities } = this;
            for (const key of deletes) entities.delete(`${resource.plural}/${key}`);
            for (const [key, found] of puts) entities.set(`${resource.plural}/${key}`, found);
            lists[at]?.resolve();
          },
          followed: () => this.#followed(),
          clock,
          chance,
        }),
    );
  }

  follow(): void {
    for (const reflector of this.#reflectors) reflector.follow();
  }

  async close(): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.close()));
  }

  #followed(): void {
    const states = this.#reflectors.map(({ following }) => following);
    const away = states.find(({ state }) => state === "away");
    if (away?.state === "away") this.#options.followed(away.fault);
    else if (states.every(({ state }) => state === "following")) this.#options.followed(undefined);
  }
}

/** The default domain of clusters. */
const USUAL_DOMAIN = "cluster.local";
const RESOLVER = "/etc/resolv.conf";
/** Largest resolver configuration, in bytes. */
const MAX_BYTES = 64 * 1024;

const NOT_FOLLOWED = "pods and services are not followed, and the known ones stay in use";
const FOLLOWED_AGAIN = "pods and services are followed again";

interface StartDiscovery extends Omit<DiscoveryOptions, "domain"> {
  readonly log: Pick<Log, "debug" | "info" | "warn">;
}

interface OpenDiscovery extends Omit<StartDiscovery, "client"> {
  /** `kubernetes_client.http_client`. */
  readonly settings: HttpClientSettings;
  readonly proxy: ProxySettings;
  readonly env: Environment;
}

interface OpenedDiscovery {
  readonly entities: Entities;
  /** Resolves after the first list of all objects. */
  readonly listed: Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Starts discovery with a client of its own, and logs the beginning and the end of an outage of the API server.
 * @throws Fault when the address of the API server is unknown, or its certificates cannot be used
 */
export async function openDiscovery(options: OpenDiscovery): Promise<OpenedDiscovery> {
  const { settings, proxy, env, clock, chance, log, followed, changed } = options;
  const access = await findAccess(env, clock);
  const client = new KubeClient({ access, settings, proxy, env, clock, log });
  let wasAway = false;
  const told = (fault: Fault | undefined) => {
    const isAway = fault !== undefined;
    if (isAway && !wasAway) log.warn({}, `${NOT_FOLLOWED}: ${fault.message}`);
    if (!isAway && wasAway) log.info({}, FOLLOWED_AGAIN);
    wasAway = isAway;
    followed(fault);
  };
  const discovery = await startDiscovery({ client, clock, chance, log, followed: told, changed });
  return {
    ...discovery,
    async close() {
      await discovery.close();
      await client.close();
    },
  };
}

/** Starts discovery with the caller's client; the caller logs outages. */
export async function startDiscovery(options: StartDiscovery): Promise<OpenedDiscovery> {
  const { log, followed } = options;
  const domain =
    clusterDomainOf(await readTextFile(RESOLVER, MAX_BYTES).catch(() => "")) ?? USUAL_DOMAIN;
  log.info({ domain }, "discovers the pods and services of the cluster");
  let isFirst = true;
  const told = (fault: Fault | undefined) => {
    if (fault === undefined && isFirst) {
      isFirst = false;
      log.info({}, "pods and services are followed");
    }
    followed(fault);
  };
  const discovery = new Discovery({ ...options, domain, followed: told });
  discovery.follow();
  const { entities, listed } = discovery;
  return { entities, listed, close: () => discovery.close() };
}
