// The controller: policies from its sources become circuits that tick and publish. This file starts and stops its parts in
// order; `assembly.ts` creates them.

import type { PolicyOperations } from "#api/policies.ts";
import type { Stop } from "#base/scope.ts";
import { API, COMPLETE, PUBLISHED } from "#sync/keys.ts";
import { assemble, type ControllerOptions, type Parts } from "./assembly.ts";
import { followDeletions } from "./loop/deletions.ts";

export interface Controller {
  readonly policies: PolicyOperations;
  /** Reads the directories now; faults are logged and shown in the status. */
  reload(): Promise<void>;
  readonly stop: Stop;
}

/**
 * Starts every policy, and then follows the sources and the store. When this returns, configurations and first decisions
 * are in the store.
 * @throws Fault INVALID_ARGUMENT with every finding when the documents of the directory cannot be used.
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const parts = assemble(options);
  const { sources, follower, outbox } = parts;
  const { over } = options;
  let endGuard: () => void = () => undefined;
  const stop = async () => {
    endGuard();
    await endFollowing(parts);
    await parts.close();
  };
  // The calls below must not wait for the store for ever.
  const giveUp = () => {
    follower.stop();
    for (const source of sources) void source.close?.();
    void outbox.close();
  };
  over?.addEventListener("abort", giveUp, { once: true });
  try {
    await start(parts, options);
    endGuard = guardPublished(parts, options);
  } catch (thrown) {
    await stop();
    throw thrown;
  } finally {
    over?.removeEventListener("abort", giveUp);
  }
  return { policies: parts.policies, reload: () => parts.files.reload(), stop };
}

async function start(parts: Parts, options: ControllerOptions): Promise<void> {
  const { sources, follower, outbox, checkpoints, scaling, active } = parts;
  const { over, log } = options;
  await adopt(parts, options);
  await checkpoints?.adopt();
  // The store first: stored policies keep their names.
  await follower.start();
  over?.throwIfAborted();
  for (const source of sources) await source.start?.();
  await outbox.settled();
  const keys = outbox.removeOrphans();
  if (keys > 0) log.info({ keys }, "removed entries of policies that no longer exist");
  outbox.confirm();
  await outbox.settled();
  over?.throwIfAborted();
  checkpoints?.start(active.loops);
  scaling?.start();
}

/** Takes over what an earlier leader published. */
async function adopt({ kept, outbox }: Parts, { store }: ControllerOptions): Promise<void> {
  for (const prefix of PUBLISHED) {
    const { entries } = await store.list(prefix);
    kept.adopt(entries);
    outbox.adopt(entries.filter(({ key }) => !key.startsWith(API) && key !== COMPLETE));
  }
}

function guardPublished({ outbox }: Parts, { store, log, fail }: ControllerOptions): () => void {
  const what = "configurations or decisions";
  return followDeletions({ store, prefixes: PUBLISHED, what, outbox, log, failed: fail });
}

async function endFollowing(parts: Parts): Promise<void> {
  const { sources, follower, compiler, scaling, attacher } = parts;
  // First, because another controller may scale by now.
  await Promise.all([scaling?.close(), attacher?.close()]);
  const closed = sources.map((source) => source.close?.());
  follower.stop();
  // Changes of the store and of the sources may wait for the compiler.
  await compiler.close();
  await Promise.all([follower.ended(), ...closed]);
}
