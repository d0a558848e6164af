// Joins the parts of injection that work with the cluster: the webhook, its certificates, namespaces, missed pods and copies
// of Secrets.

import type { Chance } from "#base/chance.ts";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Route } from "#base/handler.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "#kube/api/client.ts";
import { textOf } from "#kube/api/objects.ts";
import type { MetricSource } from "#telemetry/metrics/table.ts";
import { MissedPods } from "./cluster/missed-pods.ts";
import { Namespaces } from "./cluster/namespaces.ts";
import { ResourceBounds } from "./cluster/resource-bounds.ts";
import { SecretCopies } from "./cluster/secret-copies.ts";
import { SidecarConfig } from "./cluster/sidecar-config.ts";
import type { Texts } from "./pod.ts";
import type { ClusterAbilities, InjectionSettings, Sidecars } from "./settings.ts";
import { type CertificateFiles, certificateFiles } from "./tls/files.ts";
import { Keeper } from "./tls/keeper.ts";
import { materialStore, trustStore, webhookOwner } from "./tls/stores.ts";
import { Webhook } from "./webhook.ts";

/** `webhook.*` of the configuration; durations in ms. */
export interface WebhookSettings {
  readonly authority_lifetime: number;
  readonly cert_file: string;
  readonly certificate_lifetime: number;
  readonly configuration: string;
  readonly key_file: string;
  readonly overlap: number;
  readonly secret: string;
  readonly service: string;
}

export interface InjectorOptions {
  readonly client: KubeClient;
  /** Namespaces that are not injected, besides those of Kubernetes. */
  readonly ignoredNamespaces: readonly string[];
  /** The ConfigMap in the injector's namespace with settings of sidecars; empty for none. */
  readonly configMap: string;
  /** The settings of sidecars with the entries of the ConfigMap. @throws Fault for invalid entries */
  readonly sidecars: (entries: Texts) => Sidecars;
  readonly webhook: WebhookSettings;
  /** True if sidecars are native; `auto` asks the cluster. */
  readonly nativeSidecars: "auto" | "on" | "off";
  readonly home: string;
  /** Called with undefined when namespaces are followed, and with a fault when they may be out of date. */
  readonly followed: (fault: Fault | undefined) => void;
  /** Called with undefined when the present settings of sidecars are in use, and with a fault when they are not. */
  readonly configured: (fault: Fault | undefined) => void;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly log: Log;
}

export interface ComponentState {
  readonly isGood: boolean;
  readonly message: string;
}

const WAITS: ComponentState = {
  isGood: true,
  message: "waits for the settings of sidecars and the namespaces of the cluster",
};

/** The minor versions (1.x) that introduced each ability. */
const NATIVE_SIDECARS_SINCE = 29;
const SLEEP_ACTION_SINCE = 30;

export class Injector {
  readonly route: Route;
  readonly metrics: readonly MetricSource[];
  readonly #options: InjectorOptions;
  readonly #namespaces: Namespaces;
  readonly #bounds: ResourceBounds;
  readonly #missed: MissedPods;
  readonly #copies: SecretCopies;
  #own: { readonly files: CertificateFiles; readonly keeper: Keeper } | undefined;
  /** Undefined until the version of the cluster is known. */
  #minor: number | undefined;
  /** Undefined before the ConfigMap was read. */
  #sidecars: Sidecars | undefined;
  readonly #config: SidecarConfig | undefined;
  readonly #listeners: (() => void)[] = [];

  constructor(options: InjectorOptions) {
    const { client, home, ignoredNamespaces, configMap, clock, chance, log } = options;
    this.#options = options;
    const abilities = () => this.#abilities();
    const settings = () => this.#settings();
    this.#namespaces = new Namespaces({
      client,
      clock,
      chance,
      log,
      followed: options.followed,
      ignored: ignoredNamespaces,
      changed: () => this.#changed(),
    });
    this.#bounds = new ResourceBounds({ client, clock, chance, log });
    const namespaces = () => this.#namespaces.enabled();
    const wall = () => clock.wall();
    this.#missed = new MissedPods({ client, namespaces, settings, abilities, wall, log });
    const owner = webhookOwner(client, options.webhook.configuration);
    const everywhere = () => this.#namespaces.names();
    this.#copies = new SecretCopies({ client, home, namespaces, everywhere, owner, log });
    if (configMap !== "")
      this.#config = new SidecarConfig({
        client,
        namespace: home,
        name: configMap,
        use: (entries) => this.#use(entries),
        followed: options.configured,
        clock,
        chance,
        log,
      });
    const webhook = new Webhook({
      settings,
      abilities,
      clock,
      log,
      namespace: (name, signal) => this.#namespaces.find(name, signal),
      bounds: (name) => this.#bounds.of(name),
    });
    this.route = webhook.route;
    this.metrics = [webhook, this.#missed];
  }

  /** Follows the cluster, and retries while the API server is away. */
  async start(): Promise<void> {
    const { webhook } = this.#options;
    if (webhook.cert_file === "") {
      const files = await certificateFiles();
      this.#own = { files, keeper: this.#keeper(files) };
    }
    this.#namespaces.follow();
    this.#bounds.follow();
    if (this.#config !== undefined) this.#config.follow();
    else {
      this.#use({});
      this.#options.configured(undefined);
    }
  }

  /**
   * Calls `changed` when copies of Secrets or agents may be missing: when the settings of sidecars, the known namespaces or
   * their labels changed.
   */
  onChange(changed: () => void): void {
    this.#listeners.push(changed);
  }

  /** The certificate files of the webhook. The injector's own files exist after the first successful check. */
  get files(): { readonly cert_file: string; readonly key_file: string } {
    const { cert_file, key_file } = this.#own?.files ?? this.#options.webhook;
    return { cert_file, key_file };
  }

  /** True if the webhook can be served: settings, certificate and cluster version are known. */
  get isReady(): boolean {
    const hasCertificate = this.#own === undefined || this.#own.keeper.inUse !== undefined;
    return this.#minor !== undefined && this.#sidecars !== undefined && hasCertificate;
  }

  /** Reads the version of the cluster once, and takes the next step of the certificates. @throws Fault */
  async check(signal: AbortSignal): Promise<void> {
    if (this.#minor === undefined) this.#minor = await this.#readVersion(signal);
    await this.#own?.keeper.check(signal);
  }

  /** Brings copies of Secrets in step. @throws Fault when the API server does not answer */
  async copy(signal: AbortSignal): Promise<ComponentState> {
    if (this.#sidecars === undefined || !this.#namespaces.isKnown) return WAITS;
    await this.#copies.round(this.#sidecars.secrets, signal);
    const { faults } = this.#copies;
    const isGood = faults.length === 0;
    return { isGood, message: isGood ? "all copies are in step" : faults.join("; ") };
  }

  /** Looks for missed pods. @throws Fault when the API server does not answer */
  async search(signal: AbortSignal): Promise<ComponentState> {
    if (this.#sidecars === undefined || !this.#namespaces.isKnown) return WAITS;
    await this.#missed.search(signal);
    return { isGood: true, message: this.#missed.summary };
  }

  async close(): Promise<void> {
    await this.#config?.close();
    await this.#namespaces.close();
    await this.#bounds.close();
    await this.#own?.files.remove();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #use(entries: Texts): void {
    this.#sidecars = this.#options.sidecars(entries);
    this.#changed();
  }

  /** @throws Fault before there are settings; the webhook is not served until then */
  #settings(): InjectionSettings {
    if (this.#sidecars === undefined) throw new Fault("UNAVAILABLE", WAITS.message);
    return this.#sidecars.settings;
  }

  #keeper(files: CertificateFiles): Keeper {
    const { client, webhook, home, clock, log } = this.#options;
    const name = `${webhook.service}.${home}.svc`;
    return new Keeper({
      rules: {
        names: [name, `${name}.cluster.local`],
        servingLifetime: webhook.certificate_lifetime,
        authorityLifetime: webhook.authority_lifetime,
        overlap: webhook.overlap,
      },
      store: materialStore(client, { namespace: home, name: webhook.secret }),
      trust: webhook.configuration === "" ? undefined : trustStore(client, webhook.configuration),
      use: (serving) => files.write(serving),
      clock,
      log,
    });
  }

  async #readVersion(signal: AbortSignal): Promise<number> {
    const found = await this.#options.client.read("/version", signal);
    // Some providers append a plus sign, which parseInt ignores.
    const minor = Number.parseInt(textOf(found, "minor"), 10);
    if (textOf(found, "major") === "1" && minor > 0) return minor;
    throw new Fault(
      "UNAVAILABLE",
      "GET /version: wanted the version of a Kubernetes cluster, got something else",
    );
  }

  #abilities(): ClusterAbilities {
    const { nativeSidecars } = this.#options;
    const minor = this.#minor ?? Number.POSITIVE_INFINITY;
    return {
      nativeSidecars:
        nativeSidecars === "auto" ? minor >= NATIVE_SIDECARS_SINCE : nativeSidecars === "on",
      sleepAction: minor >= SLEEP_ACTION_SINCE,
    };
  }
}
