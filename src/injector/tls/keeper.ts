// Keeps the certificates of the webhook: takes the next step of their rotation, stores it for all replicas, and tells the API
// server whom to trust. Each replica does all of this; what another one wrote first is read and followed.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { bundleOf, type Material, type RotationRules, rotate } from "./rotation.ts";

/** The Secret that replicas share. */
export interface MaterialStore {
  /** Undefined where there is no Secret; its material is undefined where it holds something else. */
  read(signal: AbortSignal): Promise<StoredMaterial | undefined>;
  /** Throws a Fault ABORTED or ALREADY_EXISTS when somebody else wrote since `over` was read. */
  write(material: Material, over: StoredMaterial | undefined, signal: AbortSignal): Promise<void>;
}

export interface StoredMaterial {
  readonly material: Material | undefined;
  readonly resourceVersion: string;
}

/** The webhook configuration, as the store of the certificates that the API server trusts when it calls the webhook. */
export interface TrustStore {
  /** Whether calls of the webhook trust exactly this bundle, more than it, or not all of it. */
  trusts(bundle: string, signal: AbortSignal): Promise<"exactly" | "more" | "less">;
  /** Throws a Fault ABORTED when somebody else wrote meanwhile. */
  trust(bundle: string, signal: AbortSignal): Promise<void>;
}

interface KeeperOptions {
  readonly rules: RotationRules;
  readonly store: MaterialStore;
  /** Undefined where others publish the authority. */
  readonly trust: TrustStore | undefined;
  /** Called with what the webhook is to show, whenever that is another certificate. */
  readonly use: (serving: Material["serving"]) => void | Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Most attempts at one step while other replicas write at the same time. */
const MAX_ATTEMPTS = 10;
const CONFLICTS: readonly string[] = ["ABORTED", "ALREADY_EXISTS"];

export class Keeper {
  readonly #options: KeeperOptions;
  #inUse: Material | undefined;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** Undefined before the first check that succeeded. */
  get inUse(): Material | undefined {
    return this.#inUse;
  }

  /**
   * Takes the next step of the rotation.
   * @throws Fault when the API server does not answer or refuses; the certificate in use then stays
   */
  async check(signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#step(signal);
        return;
      } catch (thrown) {
        const { code } = Fault.from(thrown);
        if (!CONFLICTS.includes(code) || attempt === MAX_ATTEMPTS || signal.aborted) throw thrown;
      }
    }
  }

  async #step(signal: AbortSignal): Promise<void> {
    const { store, trust, rules, use, clock, log } = this.#options;
    const stored = await store.read(signal);
    // A Secret that was deleted is put back: other replicas still show what it held.
    const known = stored === undefined ? this.#inUse : stored.material;
    const trusted = known === undefined ? "less" : await trust?.trusts(bundleOf(known), signal);
    const isPublished = trusted !== "less";
    const { material, done } = rotate(known, rules, { now: clock.wall(), isPublished });
    if (material !== stored?.material) {
      await store.write(material, stored, signal);
      log.info({}, `certificates of the webhook: ${done ?? "put the Secret back"}`);
    }
    const shown = this.#inUse?.serving.cert;
    this.#inUse = material;
    if (shown !== material.serving.cert) await use(material.serving);
    if (trust === undefined || (material === known && trusted === "exactly")) return;
    await trust.trust(bundleOf(material), signal);
    log.info({}, "told the API server which authorities of the webhook to trust");
  }
}
