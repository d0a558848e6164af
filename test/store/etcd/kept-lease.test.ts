// Leases that are made again, over a client whose answers the test decides: which leases of etcd are renewed, and which
// keys each of them has.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "#base/fault.ts";
import type { EtcdClient } from "#store/etcd/client.ts";
import { Keys } from "#store/etcd/keys.ts";
import { KeptLease } from "#store/etcd/lease/kept-lease.ts";
import type { Op } from "#store/store.ts";
import { fakeClock } from "../../kit/clock.ts";

const put = (key: string): Op => ({ kind: "put", key, value: Buffer.from(key) });
const turns = async () => {
  for (let count = 0; count < 10; count++) await turn();
};

interface Txn {
  readonly success: readonly { readonly requestPut: { key: Uint8Array; lease: bigint } }[];
}

/** A kept lease of 3 s, in an etcd with these leases. Leases in `gone` have ended there. */
async function keptLease() {
  const clock = fakeClock();
  const keys = new Keys("");
  const gone = new Set<bigint>();
  const renewed: bigint[] = [];
  const revoked: bigint[] = [];
  const written: string[] = [];
  let grants = 0n;
  let remade = 0;
  const etcd = {
    granting: async () => undefined as unknown,
    committing: async () => undefined as unknown,
    pausing: async () => undefined as unknown,
  };
  const calls = {
    grant: async () => {
      await etcd.granting();
      return { id: ++grants, ttl: 3n };
    },
    keepAlive: async ({ id }: { id: bigint }) => {
      renewed.push(id);
      return { ttl: gone.has(id) ? 0n : 3n };
    },
    revoke: async ({ id }: { id: bigint }) => void revoked.push(id),
    txn: async ({ success }: Txn) => {
      await etcd.committing();
      for (const { requestPut } of success)
        written.push(`${Buffer.from(requestPut.key)} ${requestPut.lease}`);
      return { succeeded: true, header: { revision: 1n } };
    },
  };
  const client = {
    isAway: false,
    call: (method: keyof typeof calls, request: never) => calls[method](request),
    pause: () => etcd.pausing(),
  };
  const lease = await KeptLease.open({
    client: client as unknown as EtcdClient,
    keys,
    clock,
    ttlMs: 3_000,
    remade: () => {
      remade += 1;
    },
    revoked: () => undefined,
  });
  /** One renewal of each lease that is kept alive; resolves to their ids. */
  const renewals = async () => {
    renewed.length = 0;
    clock.advance(1_000);
    await turns();
    return renewed.toSorted();
  };
  return { lease, etcd, gone, revoked, written, renewals, clock, remade: () => remade };
}

const refused = async () => {
  throw new Fault("PERMISSION_DENIED", "permission denied");
};

/** The lease 1 is lost, and etcd refuses the keys of its next two successors. */
async function afterTwoRefusals() {
  const made = await keptLease();
  const { lease, etcd, gone, renewals } = made;
  await lease.written([put("/a")], await lease.current);
  let refusals = 2;
  etcd.committing = async () => {
    if (refusals-- > 0) await refused();
  };
  gone.add(1n);
  await renewals();
  return made;
}

test("a lease whose keys were refused is given up, and the next one is the only one that is renewed", async () => {
  const { lease, written, renewals, remade } = await afterTwoRefusals();
  assert.equal((await lease.current).id, 4n);
  assert.deepEqual(written, ["/a 4"]);
  assert.equal(remade(), 1);
  assert.deepEqual(await renewals(), [4n]);
});

test("a lease that is lost is replaced, not a lease after it", async () => {
  const { lease, gone, renewals, written } = await afterTwoRefusals();
  gone.add(2n);
  await renewals();
  assert.equal((await lease.current).id, 4n);
  gone.add(4n);
  await renewals();
  assert.equal((await lease.current).id, 5n);
  assert.deepEqual(written, ["/a 4", "/a 5"]);
});

test("a key that was released is not written again", async () => {
  const { lease, gone, renewals, written } = await keptLease();
  await lease.written([put("/a"), put("/b")], await lease.current);
  lease.release("/a");
  gone.add(1n);
  await renewals();
  assert.equal((await lease.current).id, 2n);
  assert.deepEqual(written, ["/b 2"]);
});

test("two calls that find the same lease gone make it again once", async () => {
  const { lease, renewals, remade } = await keptLease();
  const lost = await lease.current;
  await Promise.all([lease.remake(lost), lease.remake(lost)]);
  await turns();
  assert.equal(remade(), 1);
  assert.deepEqual(await renewals(), [2n]);
});

test("a lease that is revoked while it cannot be made again ends: nothing waits, and nothing is written", async () => {
  const { lease, etcd, gone, renewals, written, clock } = await keptLease();
  await lease.written([put("/a")], await lease.current);
  const paused = Promise.withResolvers<void>();
  etcd.committing = refused;
  etcd.pausing = () => paused.promise;
  gone.add(1n);
  await renewals();
  let ended = false;
  const revoking = lease.revoke().then(() => {
    ended = true;
  });
  await turns();
  clock.advance(500);
  await turns();
  assert.ok(ended, "whoever revokes waits half a second at most");
  etcd.committing = async () => undefined;
  paused.resolve();
  await revoking;
  await turns();
  assert.deepEqual(written, []);
  assert.deepEqual(await renewals(), []);
});

test("a lease that is granted after it was revoked is revoked, too, without its keys", async () => {
  const { lease, etcd, gone, renewals, written, revoked, clock } = await keptLease();
  await lease.written([put("/a")], await lease.current);
  const granted = Promise.withResolvers<void>();
  etcd.granting = () => granted.promise;
  gone.add(1n);
  await renewals();
  const revoking = lease.revoke();
  clock.advance(500);
  await revoking;
  granted.resolve();
  await turns();
  assert.deepEqual(revoked, [2n]);
  assert.deepEqual(written, []);
  assert.equal(clock.alarms, 0, "no lease is renewed");
});

test("a write under a lease that is over is refused instead of being tried for ever", async () => {
  const { lease } = await keptLease();
  const lost = await lease.current;
  await lease.revoke();
  await assert.rejects(lease.remake(lost), { code: "CANCELLED" });
});

test("what was written under a lease that was lost before the reply came is written under its successor", async () => {
  const { lease, gone, renewals, written } = await keptLease();
  const used = await lease.current;
  gone.add(1n);
  await renewals();
  assert.deepEqual(written, [], "the new lease was made before the reply to the write came");
  await lease.written([put("/a")], used);
  assert.deepEqual(written, ["/a 2"]);
  await lease.written([put("/b")], await lease.current);
  assert.deepEqual(written, ["/a 2"], "what the present lease has is not written twice");
});
