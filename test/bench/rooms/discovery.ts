// Costs of service discovery: memory and time for pods behind services, and the time of one lookup and one change.
// `node --expose-gc test/bench/rooms/discovery.ts [PODS]`; 10 000 by default, in slices of 100.

import { Entities } from "#kube/discovery/entities.ts";
import { podsOf } from "#kube/discovery/objects.ts";

const PODS = Number(process.argv[2] ?? 10_000);
const SLICE = 100;
const LOOKUPS = 5_000_000;
const CHANGES = 1_000;

const print = (line: string) => void process.stdout.write(`${line}\n`);
const addressOf = (pod: number) => `10.${pod >> 16}.${(pod >> 8) & 255}.${pod & 255}`;

/** As the API server sends it, with a reference to a pod at each address. */
function slice(at: number): string {
  const endpoints = Array.from({ length: SLICE }, (_, index) => {
    const pod = at * SLICE + index;
    return {
      addresses: [addressOf(pod)],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${pod % 300}.example.internal`,
      targetRef: {
        kind: "Pod",
        name: `application-${at}-5d8f7c9b6d-${pod}`,
        namespace: `team-${at % 20}`,
        uid: `00000000-0000-4000-8000-${String(pod).padStart(12, "0")}`,
      },
    };
  });
  const labels = { "kubernetes.io/service-name": `application-${at}` };
  const metadata = { name: `application-${at}-abcde`, namespace: `team-${at % 20}`, labels };
  return JSON.stringify({ metadata, addressType: "IPv4", endpoints });
}

function heap(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

const slices = Math.ceil(PODS / SLICE);
const before = heap();
const entities = new Entities();
const began = performance.now();
for (let at = 0; at < slices; at++) {
  entities.set(String(at), podsOf(JSON.parse(slice(at)), "cluster.local") ?? []);
}
const ms = performance.now() - began;
const bytes = heap() - before;
print(`${entities.size} pods in ${slices} slices: ${ms.toFixed(0)} ms with reading them`);
print(`${(bytes / 1e6).toFixed(1)} MB, ${Math.round(bytes / entities.size)} bytes a pod`);

const known = Array.from({ length: 1_000 }, (_, at) => addressOf((at * 97) % PODS));
let found = 0;
const asked = performance.now();
for (let at = 0; at < LOOKUPS; at++) {
  found += entities.byAddress(known[at % known.length] ?? "").length;
}
const each = ((performance.now() - asked) * 1e6) / LOOKUPS;
print(`${each.toFixed(0)} ns a lookup, ${found === LOOKUPS ? "all" : "NOT all"} found`);

const object = JSON.parse(slice(0));
const changed = performance.now();
for (let at = 0; at < CHANGES; at++) entities.set("0", podsOf(object, "cluster.local") ?? []);
const change = ((performance.now() - changed) * 1e3) / CHANGES;
print(`${change.toFixed(0)} µs a change of a slice with ${SLICE} pods`);
if (globalThis.gc === undefined) print("memory includes garbage: run with --expose-gc");
