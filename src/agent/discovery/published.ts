// Service discovery for agents without access to the Kubernetes API: the leading controller publishes the pod or Service at
// each address under a key of the store. An agent follows the keys of its own pod, and looks up other addresses.

import { isIP } from "node:net";
import { within } from "#base/async/wait.ts";
import { Fault } from "#base/fault.ts";
import type { Entity } from "#base/net/entity.ts";
import { canonicalAddress } from "#base/net/ip-address.ts";
import { cutText } from "#base/text/cut.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import { followStore } from "#fleet/follow-store.ts";
import type { StoreUpdate } from "#store/store.ts";
import { readEntity } from "#sync/entities.ts";
import { DISCOVERED, entityPrefix } from "#sync/keys.ts";
import { LookedUp } from "./looked-up.ts";
import { OwnPod } from "./own-pod.ts";

/** Time that a start waits for the store, ms. Until it answers, no check has services. */
const FIRST_MS = 2_000;
/** Time limit of a look-up, ms. */
const LOOKUP_MS = 3_000;
/** Limit of addresses of a pod: one of each family. */
const MAX_OWN = 2;

/** Follows the store until the process ends. Resolves when the store has answered, or takes too long. */
export async function followPublished(process: SluiceProcess) {
  const { clock, env, health, metrics, scope, store } = process;
  const log = process.log.child("discovery");
  const status = health.dependency("discovery");
  const addresses = addressesOf(env);
  const own = new OwnPod(addresses);
  let hasAnswered = false;
  let hasPublisher = false;
  let lookupFault: Fault | undefined;
  let logged: string | undefined;
  const show = () => {
    const faults = [
      ...(own.isLost ? [LOST] : []),
      ...(own.isLost || hasPublisher ? [] : [hasAnswered ? NO_PUBLISHER : NO_ANSWER]),
      ...(addresses.length === 0 ? [NO_ADDRESS] : []),
      ...(lookupFault === undefined ? [] : [NO_LOOKUPS]),
    ];
    const text = faults.join("; ");
    const why = lookupFault === undefined ? "" : `: ${lookupFault.message}`;
    if (faults.length === 0) status.ok(`${addresses.join(" and ")}: ${servicesText(own.services)}`);
    else {
      status.degraded(text + why);
      // Checks are answered with the services that were known last.
      health.doWithout("discovery");
    }
    // The text without its reason, which may name another server each time.
    if (text === logged) return;
    if (faults.length > 0) log.warn({}, text + why);
    else log.info({ addresses }, "the services of this pod are followed");
    logged = text;
  };
  const lookedUp = new LookedUp({
    clock,
    async find(address) {
      const { entries } = await store.list(entityPrefix(address), { timeoutMs: LOOKUP_MS });
      const [entry] = entries;
      return entry && readEntity(entry.value);
    },
    isUnsure: () => own.isLost || health.degraded.get("store") === true,
    reached(fault) {
      if (lookupFault?.message === fault?.message) return;
      lookupFault = fault;
      show();
    },
  });
  const first = Promise.withResolvers<void>();
  const stop = new AbortController();
  const apply = (batch: StoreUpdate) => {
    hasAnswered = true;
    for (const key of batch.deletes) if (key === DISCOVERED) hasPublisher = false;
    hasPublisher ||= batch.puts.some(({ key }) => key === DISCOVERED);
    try {
      own.apply(batch);
    } finally {
      show();
      first.resolve();
    }
  };
  const prefixes = [...addresses.map(entityPrefix), DISCOVERED];
  const what = "the services of this pod";
  const followed = { store, prefixes, what, apply, clock, log, signal: stop.signal };
  const ended = followStore(followed);
  scope.add("discovery", async () => {
    stop.abort();
    lookedUp.close();
    await ended;
  });
  metrics.add({
    collect(to) {
      to.number("sluice_discovery_addresses", [], own.entities.length + lookedUp.known);
      for (const [result, count] of Object.entries(lookedUp.counts))
        to.number("sluice_discovery_lookups_total", [result], count);
    },
  });
  await within(FIRST_MS, clock, first.promise);
  if (logged === undefined) show();
  const at = (address: string) => own.at(address) ?? lookedUp.at(address);
  return {
    lookup: {
      byAddress: (address: string): readonly string[] =>
        own.byAddress(address) ?? lookedUp.byAddress(address),
    },
    entities: {
      at,
      all: (): Iterable<Entity> => [...own.entities, ...lookedUp.all()],
      byName: () => byName([...own.entities, ...lookedUp.all()]),
    },
  };
}

const LOST = "the store lost what controllers published, and the known services stay in use";
const NO_LOOKUPS = "other addresses cannot be looked up, and the known services stay in use";
const NO_ANSWER = "the store has not answered yet";
const NO_PUBLISHER =
  "no controller publishes services (service_discovery.kubernetes.enabled of the controllers)";
const NO_ADDRESS =
  "the services of this pod are unknown, because POD_IPS and POD_IP name no address of it";

function servicesText(services: readonly string[]): string {
  if (services.length === 0) return "this pod belongs to no service";
  const [first = ""] = services;
  const others = services.length > 1 ? ` and ${services.length - 1} other services` : "";
  return `this pod belongs to ${first}${others}`;
}

/**
 * The addresses of this pod from the downward API, in canonical form.
 * @throws Fault INVALID_ARGUMENT for other text, because the pod would lack the services at that address
 */
function addressesOf(env: SluiceProcess["env"]): readonly string[] {
  const found = ["POD_IPS", "POD_IP"].flatMap((name) => addressesIn(name, env[name] ?? ""));
  return [...new Set(found)].slice(0, MAX_OWN);
}

/** Kubernetes separates addresses by commas. The value is empty before the pod has an address. */
function addressesIn(name: string, value: string): readonly string[] {
  const texts = value.split(",").map((text) => text.trim());
  return texts.flatMap((text) => {
    if (text === "") return [];
    const address = canonicalAddress(text);
    if (isIP(address) !== 0) return [address];
    const got = JSON.stringify(cutText(text));
    throw new Fault(
      "INVALID_ARGUMENT",
      `${name}: wanted IP addresses separated by commas, got ${got}`,
    );
  });
}

/** An entity with several addresses is shown with the first. */
function byName(entities: readonly Entity[]): ReadonlyMap<string, Entity> {
  const found = new Map<string, Entity>();
  for (const entity of entities) {
    const name = `${entity.namespace}/${entity.name}`;
    if (!found.has(name)) found.set(name, entity);
  }
  return found;
}
