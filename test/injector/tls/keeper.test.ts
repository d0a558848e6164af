// Replicas that keep the certificates of one webhook, over a Secret and a webhook configuration in memory that refuse stale
// writes as the API server does.

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { Fault } from "#base/fault.ts";
import {
  Keeper,
  type MaterialStore,
  type StoredMaterial,
  type TrustStore,
} from "../../../src/injector/tls/keeper.ts";
import { bundleOf, type Material } from "../../../src/injector/tls/rotation.ts";
import { fakeClock } from "../../kit/clock.ts";
import { memoryLog } from "../../kit/sluice/log.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const RULES = {
  names: ["sluice-injector.sluice.svc"],
  servingLifetime: 9 * HOUR,
  authorityLifetime: 30 * HOUR,
  overlap: HOUR,
} as const;

class MemoryCluster {
  secret: StoredMaterial | undefined;
  bundle = "";
  writes = 0;
  /** Called before each write: where another replica is faster. */
  beforeWrite: () => Promise<void> = async () => undefined;
  away = false;

  readonly store: MaterialStore = {
    read: async () => {
      this.#answer();
      return this.secret;
    },
    write: async (material, over) => {
      await this.beforeWrite();
      this.#answer();
      if (over === undefined && this.secret !== undefined) throw new Fault("ALREADY_EXISTS", "");
      if (over !== undefined && over.resourceVersion !== this.secret?.resourceVersion) {
        throw new Fault("ABORTED", "conflict");
      }
      this.writes++;
      this.secret = { material, resourceVersion: `${this.writes}` };
    },
  };

  readonly trust: TrustStore = {
    trusts: async (bundle) => {
      this.#answer();
      if (this.bundle === bundle) return "exactly";
      return this.bundle !== "" && this.bundle.includes(bundle) ? "more" : "less";
    },
    trust: async (bundle) => {
      this.#answer();
      this.bundle = bundle;
    },
  };

  #answer(): void {
    if (this.away) throw new Fault("UNAVAILABLE", "the API server is away");
  }
}

function keeperOf(cluster: MemoryCluster, clock = fakeClock()) {
  const shown: Material["serving"][] = [];
  const log = memoryLog();
  const keeper = new Keeper({
    rules: RULES,
    store: cluster.store,
    trust: cluster.trust,
    use: (serving) => void shown.push(serving),
    clock,
    log,
  });
  const check = () => keeper.check(new AbortController().signal);
  return { check, shown, clock, log, keeper };
}

test("the first check makes a certificate, stores it and tells the API server", async () => {
  const cluster = new MemoryCluster();
  const { check, shown } = keeperOf(cluster);
  await check();
  const { material } = cluster.secret ?? {};
  assert.ok(material);
  assert.equal(shown[0], material.serving);
  assert.equal(cluster.bundle, bundleOf(material));
  await check();
  assert.equal(cluster.writes, 1, "nothing more is written");
  assert.equal(shown.length, 1);
});

test("two replicas that start together show certificates of one authority", async () => {
  const cluster = new MemoryCluster();
  const [one, other] = [keeperOf(cluster), keeperOf(cluster)];
  let isFirst = true;
  cluster.beforeWrite = async () => {
    if (!isFirst) return;
    isFirst = false;
    await other.check();
  };
  await one.check();
  assert.equal(cluster.writes, 1);
  assert.deepEqual(one.shown, other.shown);
});

test("a Secret that holds something else is replaced, one that was deleted is put back", async () => {
  const cluster = new MemoryCluster();
  cluster.secret = { material: undefined, resourceVersion: "0" };
  const { check, shown } = keeperOf(cluster);
  await check();
  const { material } = cluster.secret;
  assert.ok(material);
  cluster.secret = undefined;
  await check();
  assert.equal((cluster.secret as StoredMaterial | undefined)?.material, material);
  assert.equal(shown.length, 1);
});

test("a bundle that somebody removed is written again", async () => {
  const cluster = new MemoryCluster();
  const { check } = keeperOf(cluster);
  await check();
  const { bundle } = cluster;
  cluster.bundle = "";
  await check();
  assert.equal(cluster.bundle, bundle);
});

test("while the API server is away the certificate stays, and the fault is said", async () => {
  const cluster = new MemoryCluster();
  const { check, shown, keeper } = keeperOf(cluster);
  await check();
  cluster.away = true;
  await assert.rejects(check(), /the API server is away/);
  assert.equal(keeper.inUse?.serving, shown[0]);
});

test("through all rotations, the API server trusts what either replica shows at every moment", async () => {
  const cluster = new MemoryCluster();
  const clock = fakeClock();
  const replicas = [keeperOf(cluster, clock), keeperOf(cluster, clock)];
  const authorities = new Set<string>();
  const assertTrusted = () => {
    const trusted = cluster.bundle.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];
    for (const { shown } of replicas) {
      const cert = shown.at(-1)?.cert;
      if (cert === undefined) continue;
      const leaf = new X509Certificate(cert);
      assert.ok(leaf.validToDate.getTime() > clock.wall());
      assert.ok(trusted.some((ca) => leaf.verify(new X509Certificate(ca).publicKey)));
    }
  };
  for (const { check } of replicas) await check();
  for (let minute = 0; minute < 60 * 45; minute += 6) {
    // They check at different times.
    await replicas[(minute / 6) % 2]?.check();
    assertTrusted();
    authorities.add(cluster.secret?.material?.authority.cert ?? "");
    clock.advance(6 * MINUTE);
  }
  assert.ok(authorities.size >= 3, `${authorities.size} authorities`);
  assert.deepEqual(replicas[0]?.shown.at(-1), replicas[1]?.shown.at(-1));
});
