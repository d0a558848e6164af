// The process that injects sidecars: the webhook on its own port, its certificates, and the search for missed pods. Without
// the API server it starts, is not ready, and retries.

import { pause } from "#base/async/wait.ts";
import { Fault } from "#base/fault.ts";
import type { InjectorConfig } from "#config/tree.ts";
import { openGuarded } from "#daemon/guarded-port.ts";
import { openPorts, type Ports } from "#daemon/ports.ts";
import { type ProcessOptions, type SluiceProcess, startProcess } from "#daemon/process.ts";
import { findAccess } from "#kube/api/access.ts";
import { KubeClient } from "#kube/api/client.ts";
import type { Dependency } from "#runtime/status/health.ts";
import { version } from "#runtime/status/info.ts";
import type { Port } from "#serve/port.ts";
import { memoryStore } from "#store/memory.ts";
import type { InjectorProcessConfig } from "./config.ts";
import { type ComponentState, Injector } from "./injector.ts";
import type { Sidecars } from "./settings.ts";

/** Milliseconds between attempts while the API server is away. */
const RETRY_MS = 5_000;
/** Longest time between two checks of the certificates, in ms; a short overlap makes it shorter. */
const LONGEST_PAUSE_MS = 60_000;
const CHECKS_PER_OVERLAP = 10;
const SETTLE_MS = 200;

export interface InjectorProcessOptions extends Omit<ProcessOptions, "configs" | "store"> {
  readonly config: InjectorProcessConfig;
}

export interface InjectorPorts extends Ports {
  /** Resolves when the webhook accepts reviews; rejects if its port cannot be opened. */
  readonly webhook: Promise<Port>;
}

/** Resolves when the main port answers. The webhook opens as soon as it has a certificate. */
export async function startInjectorProcess(
  options: InjectorProcessOptions,
): Promise<InjectorPorts> {
  const { config } = options;
  const process = startProcess({ ...options, configs: [config.injector], store: memoryStore() });
  const { clock, chance, env, health, metrics, scope } = process;
  const log = process.log.child("injector");
  const settings = config.injector.config;
  const access = await findAccess(env, clock);
  const home = settings.namespace === "" ? access.namespace : settings.namespace;
  const ignoredNamespaces = [home, ...settings.ignored_namespaces];
  const ofProcess = { ignoredNamespaces, ipFamily: ipFamily(env), version: version() };
  const sidecars = (entries: Readonly<Record<string, string>>): Sidecars => {
    const { injection, secrets } = config.sidecars(entries);
    return { settings: { ...injection, ...ofProcess }, secrets };
  };
  const client = new KubeClient({
    access,
    settings: settings.kubernetes_client.http_client,
    proxy: settings.client.proxy,
    env,
    clock,
    log,
  });
  scope.add("kubernetes", () => client.close());
  const api = health.dependency("kubernetes");
  const configuration = health.dependency("sidecar-settings");
  const injector = new Injector({
    client,
    clock,
    chance,
    log,
    home,
    ignoredNamespaces,
    sidecars,
    configMap: settings.sidecar.config_map,
    webhook: settings.webhook,
    nativeSidecars: settings.native_sidecars,
    followed: (fault) => report(api, fault, "the API server answers"),
    configured: (fault) => report(configuration, fault, "sidecars get the present settings"),
  });
  for (const source of injector.metrics) metrics.add(source);
  await injector.start();
  scope.add("injector", () => injector.close());
  const ports = await openPorts(process, []);
  const stopped = new AbortController();
  const webhook = openWebhook(process, settings, injector, stopped.signal);
  webhook.catch((thrown: unknown) => {
    if (!stopped.signal.aborted) process.fail("the webhook could not be opened", thrown);
  });
  const { signal } = stopped;
  const every = settings.missed_pods_interval;
  const wakes = (wake: () => void) => injector.onChange(wake);
  const background = [
    repeat(process, { what: "secrets", every, wakes, signal }, () => injector.copy(signal)),
    repeat(process, { what: "missed-pods", every, wakes, signal }, () => injector.search(signal)),
  ];
  scope.add("background", async () => {
    stopped.abort();
    await Promise.all(background);
  });
  return { ...ports, webhook };
}

/** Waits for a certificate, opens the port of the webhook, and then keeps the certificate valid. */
async function openWebhook(
  process: SluiceProcess,
  settings: InjectorConfig,
  injector: Injector,
  signal: AbortSignal,
): Promise<Port> {
  const { clock, health, scope } = process;
  const log = process.log.child("webhook");
  const { server, webhook } = settings;
  const certificates = health.dependency("certificates");
  const ready = health.dependency("webhook");
  let last = "";
  const check = async () => {
    const fault = await injector.check(signal).then(() => undefined, Fault.from);
    if (signal.aborted) return;
    report(certificates, fault, "the webhook has a certificate");
    const message = fault?.message ?? "";
    if (message !== last && message !== "")
      log.warn({ cause: fault?.cause }, `certificates of the webhook: ${message}`);
    last = message;
  };
  for (;;) {
    await check();
    if (signal.aborted) throw new Fault("CANCELLED", "the injector stops");
    if (injector.isReady) break;
    ready.degraded("it has no certificate or no settings of sidecars yet");
    await pause(RETRY_MS, clock, signal);
  }
  const port = await openGuarded(process, {
    name: "webhook",
    settings: {
      ...server,
      listener: { ...server.listener, addr: webhook.addr, key: "webhook.addr" },
      tls: { enabled: true, client_ca_file: "", allowed_cn: "", key: "webhook", ...injector.files },
      grpc: { ...server.grpc, enable_reflection: false },
    },
    part: { routes: [injector.route], services: [] },
  });
  scope.add("webhook", (speed) => (speed === "cut" ? port.cut() : port.drain()));
  ready.ok("the webhook answers");
  log.info({ address: port.address }, `listening on ${port.address}`);
  const every = Math.min(LONGEST_PAUSE_MS, webhook.overlap / CHECKS_PER_OVERLAP);
  const keep = async () => {
    while (!signal.aborted) {
      await pause(last === "" ? every : RETRY_MS, clock, signal);
      if (!signal.aborted) await check();
    }
  };
  void keep();
  return port;
}

interface Repetition {
  /** Name of the component in the status. */
  readonly what: string;
  /** Milliseconds between two rounds. */
  readonly every: number;
  /** Registers a function that starts the next round early. */
  readonly wakes?: (wake: () => void) => void;
  readonly signal: AbortSignal;
}

/** Repeats work until the signal aborts, and reports its result to the status. Never rejects. */
async function repeat(
  { clock, health, log }: SluiceProcess,
  { what, every, wakes, signal }: Repetition,
  work: () => Promise<ComponentState>,
): Promise<void> {
  const status = health.root.at("system", "injector").at("component", what);
  let rest = new AbortController();
  const wake = () => rest.abort();
  wakes?.(wake);
  signal.addEventListener("abort", wake, { once: true });
  let last = "";
  while (!signal.aborted) {
    rest = new AbortController();
    try {
      const state = await work();
      if (state.isGood) status.ok(state.message);
      else status.fail(state.message);
      last = "";
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      status.fail(message);
      if (message !== last && !signal.aborted) log.warn({}, `${what}: ${message}`);
      last = message;
    }
    await pause(last === "" ? every : RETRY_MS, clock, rest.signal);
    // A burst of changes leads to one round.
    await pause(SETTLE_MS, clock, signal);
  }
}

/** The first address of a pod has the family of the API server's Service. */
function ipFamily(env: SluiceProcess["env"]): "IPv4" | "IPv6" {
  return env["KUBERNETES_SERVICE_HOST"]?.includes(":") ? "IPv6" : "IPv4";
}

function report(dependency: Dependency, fault: Fault | undefined, good: string): void {
  if (fault === undefined) dependency.ok(good);
  else dependency.degraded(fault.message);
}
