// Rotates the certificates of the webhook step by step, stores them for all replicas, and publishes the trusted authorities to
// the API server. Every replica does this; a replica that loses a race adopts what another one wrote.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { bundleOf, type Material, type RotationRules, rotate } from "./rotation.ts";

/** The Secret that replicas share. */
export interface MaterialStore {
  /** Undefined if there is no Secret; `material` is undefined if the Secret holds something else. */
  read(signal: AbortSignal): Promise<StoredMaterial | undefined>;
  /** @throws Fault ABORTED or ALREADY_EXISTS if somebody else wrote since `over` was read */
  write(material: Material, over: StoredMaterial | undefined, signal: AbortSignal): Promise<void>;
}

export interface StoredMaterial {
  readonly material: Material | undefined;
  readonly resourceVersion: string;
}

/** The webhook configuration, which holds the certificates that the API server trusts. */
export interface TrustStore {
  /** How much of this bundle the API server trusts: exactly it, more, or not all of it. */
  trusts(bundle: string, signal: AbortSignal): Promise<"exactly" | "more" | "less">;
  /** @throws Fault ABORTED if somebody else wrote meanwhile */
  trust(bundle: string, signal: AbortSignal): Promise<void>;
}

interface KeeperOptions {
  readonly rules: RotationRules;
  readonly store: MaterialStore;
  /** Undefined if others publish the authority. */
  readonly trust: TrustStore | undefined;
  /** Called with the certificate to serve, whenever it changes. */
  readonly use: (serving: Material["serving"]) => void | Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The most attempts at one step while other replicas write too. */
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
    // A deleted Secret is restored, because other replicas still serve its certificate.
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
