// The cost of services in sidecars: what a leading controller keeps and writes for pods behind services, to a real etcd.
// `node --expose-gc test/bench/rooms/published-services.ts [PODS]`; 10 000 by default, in slices of 100.

import { Entities } from "#kube/discovery/entities.ts";
import { podsOf } from "#kube/discovery/objects.ts";
import { realChance, realClock } from "#runtime/life/clock.ts";
import { etcdStore } from "#store/etcd.ts";
import { DISCOVERY, entityPrefix } from "#sync/keys.ts";
import { EntityPublisher } from "../../../src/controller/discovery/entity-publisher.ts";
import { startEtcd } from "../../kit/etcd/cluster.ts";
import { etcdSettings } from "../../kit/etcd/store.ts";
import { silentLog } from "../../kit/sluice/log.ts";
import { storeWith } from "../../kit/sluice/stored.ts";

const PODS = Number(process.argv[2] ?? 10_000);
const SLICE = 100;
const LOOKUPS = 2_000;

const print = (line: string) => void process.stdout.write(`${line}\n`);
const addressOf = (pod: number) => `10.${pod >> 16}.${(pod >> 8) & 255}.${pod & 255}`;

/** An EndpointSlice; `edited` is the index of the pod whose node is another one. */
function slice(at: number, edited = -1) {
  const endpoints = Array.from({ length: SLICE }, (_, index) => {
    const pod = at * SLICE + index;
    return {
      addresses: [addressOf(pod)],
      nodeName: index === edited ? "another" : `node-${pod % 300}.example.internal`,
      targetRef: {
        kind: "Pod",
        name: `application-${at}-5d8f7c9b6d-${pod}`,
        uid: `00000000-0000-4000-8000-${String(pod).padStart(12, "0")}`,
      },
    };
  });
  const labels = { "kubernetes.io/service-name": `application-${at}` };
  const metadata = { name: `application-${at}-abcde`, namespace: `team-${at % 20}`, labels };
  return podsOf({ metadata, addressType: "IPv4", endpoints } as never, "cluster.local") ?? [];
}

function heap(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const stops: (() => unknown)[] = [];
const { endpoints } = await startEtcd({ after: (stop) => void stops.unshift(stop) });
const [clock, chance, log] = [realClock(), realChance(), silentLog()];
const real = etcdStore({ settings: etcdSettings(endpoints), clock, chance, log });
stops.unshift(() => real.close());
let ops = 0;
const store = storeWith(real, {
  commit(each, options) {
    ops += each.length;
    return real.commit(each, options);
  },
});

const slices = Math.ceil(PODS / SLICE);
const before = heap();
const entities: Entities = new Entities(undefined, (address) => publisher.change(address));
const publisher = new EntityPublisher({
  store,
  clock,
  log,
  at: (address) => entities.at(address),
  written: () => undefined,
});
for (let at = 0; at < slices; at++) entities.set(String(at), slice(at));
const discovered = heap();
const began = performance.now();
await publisher.begin(() => entities.all());
const ms = performance.now() - began;
print(`${entities.size} pods published in ${ms.toFixed(0)} ms, ${ops} writes`);
const mb = (bytes: number) => (bytes / 1e6).toFixed(1);
print(`${mb(discovered - before)} MB to know them, ${mb(heap() - discovered)} MB to publish them`);

const { revision } = await real.list(DISCOVERY);
const stop = new AbortController();
const changes = real.watch([entityPrefix(addressOf(7))], stop.signal)[Symbol.asyncIterator]();
await changes.next();
ops = 0;
const edited = performance.now();
entities.set("0", slice(0, 7));
await changes.next();
const editMs = performance.now() - edited;
stop.abort();
print(`one edit: ${ops} write, seen by the watch of its pod after ${editMs.toFixed(0)} ms`);

const asked = performance.now();
for (let at = 0; at < LOOKUPS; at++)
  await real.list(entityPrefix(addressOf((at * 97) % PODS)), { timeoutMs: 3_000 });
const each = (performance.now() - asked) / LOOKUPS;
print(`${each.toFixed(2)} ms a look-up, one after the other (revision ${revision})`);

await publisher.close();
const successor = new EntityPublisher({
  store,
  clock,
  log,
  at: (address) => entities.at(address),
  written: () => undefined,
});
ops = 0;
const adopted = performance.now();
await successor.begin(() => entities.all());
const adoptMs = performance.now() - adopted;
print(`the next leader: ${adoptMs.toFixed(0)} ms, ${ops} write`);
await successor.close();
if (globalThis.gc === undefined) print("memory includes garbage: run with --expose-gc");
for (const end of stops) await end();
