// Follows the ConfigMap with the settings of sidecars, so that a change takes effect without a restart. Invalid entries are
// reported, and the last valid ones stay in use.

import { isDeepStrictEqual } from "node:util";
import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import { fieldOf, type KubeObject, type Resource } from "#kube/api/objects.ts";
import { type Changes, Reflector } from "#kube/api/reflector.ts";
import type { Texts } from "../pod.ts";

const CONFIG_MAPS: Resource = { group: "", version: "v1", plural: "configmaps" };

export interface SidecarConfigOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Puts the entries into use. @throws Fault for invalid entries */
  readonly use: (entries: Texts) => void;
  /** Called with undefined when the present entries are in use, and with a Fault when they are not or may be out of date. */
  readonly followed: (fault: Fault | undefined) => void;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

export class SidecarConfig {
  readonly #options: SidecarConfigOptions;
  readonly #reflector: Reflector<Texts>;
  #used: Texts | undefined;
  /** The reason why the present entries are not in use. */
  #refused: Fault | undefined;
  /** The reason why the present entries are unknown. */
  #away: Fault | undefined;

  constructor(options: SidecarConfigOptions) {
    const { client, namespace, name, clock, chance } = options;
    this.#options = options;
    this.#reflector = new Reflector<Texts>({
      client,
      clock,
      chance,
      resource: CONFIG_MAPS,
      // Rights on a single object require this selector.
      selection: { namespace, fieldSelector: `metadata.name=${name}` },
      keep: entriesOf,
      changed: (changes) => this.#take(changes),
      followed: (following) => {
        this.#away = following.state === "away" ? following.fault : undefined;
        this.#tell();
      },
    });
  }

  /** Retries while the API server is away. */
  follow(): void {
    this.#reflector.follow();
  }

  close(): Promise<void> {
    return this.#reflector.close();
  }

  #take({ puts, deletes }: Changes<Texts>): void {
    const { namespace, name, use, log } = this.#options;
    const title = `ConfigMap ${namespace}/${name}`;
    const entries = puts.get(`${namespace}/${name}`);
    if (entries === undefined) {
      const isKnown = deletes.length === 0 && this.#reflector.size > 0;
      if (isKnown) return;
      const message = `${title} does not exist: the chart sluice-agent makes it with installationMode KUBERNETES_SIDECAR`;
      this.#refused = new Fault("NOT_FOUND", message);
    } else if (!isDeepStrictEqual(entries, this.#used)) {
      try {
        use(entries);
        this.#used = entries;
        this.#refused = undefined;
        log.info({}, `sidecars of new pods are as ${title} says`);
      } catch (thrown) {
        const { code, message, cause } = Fault.from(thrown);
        const kept = this.#used === undefined ? "" : "; new pods get what it said before";
        this.#refused = new Fault(code, `${title}: ${message}${kept}`, { cause });
      }
    } else this.#refused = undefined;
    if (this.#refused !== undefined) log.warn({}, this.#refused.message);
    this.#tell();
  }

  #tell(): void {
    this.#options.followed(this.#refused ?? this.#away);
  }
}

function entriesOf(object: KubeObject): Texts {
  const data = fieldOf(object, "data");
  const entries = typeof data === "object" && data !== null ? Object.entries(data) : [];
  return Object.fromEntries(entries.filter(([, text]) => typeof text === "string"));
}
