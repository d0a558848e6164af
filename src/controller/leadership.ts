// The leadership of a controller. Of all controllers that share a store, one runs policies. The others stand by, and one of
// them takes over when the leader or its lease ends. A leader that loses its leadership stands by again.

import { hostname } from "node:os";
import { pause, within } from "#base/async/wait.ts";
import { type Chance, uuid } from "#base/chance.ts";
import { type Code, Fault } from "#base/fault.ts";
import { reachableAddress, splitHostPort } from "#base/net/host-port.ts";
import type { Stop } from "#base/scope.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import type { Leadership, Store } from "#store/store.ts";
import { CONTROLLER_ELECTION } from "#sync/keys.ts";
import { type CandidateInfo, candidateText, ElectionWatch } from "./leadership/election-watch.ts";

/**
 * Starts the part that only a leader runs, over a store that refuses writes after the leadership ended. The signal aborts at
 * that moment; then `stop` is called, which must not wait for the store.
 */
export type StartLeading = (store: Store, over: AbortSignal) => Promise<{ readonly stop: Stop }>;

/** Milliseconds between failed attempts to lead: the first and the longest pause. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;
/** Milliseconds that a closing candidate waits for the deletion of its key. */
const RESIGN_MS = 1_000;
/** Milliseconds that a start waits until the leader is known. After that the process serves without knowing. */
const KNOWN_MS = 5_000;
/**
 * Milliseconds that an elected candidate waits for the watch to report its key. A key that is deleted at once never arrives.
 */
const SEEN_MS = 10_000;

/** These codes end the start, because retrying would not help. */
const FATAL: ReadonlySet<Code> = new Set([
  "INVALID_ARGUMENT",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
]);

export class Candidate {
  readonly #process: SluiceProcess;
  readonly #log: SluiceProcess["log"];
  readonly #status: ReturnType<SluiceProcess["health"]["dependency"]>;
  readonly #name: string;
  /** The address at which other machines reach this controller's administration routes; undefined for none. */
  #address: string | undefined;
  readonly #election: ElectionWatch;
  readonly #stop = new AbortController();
  /** Resolves when the leader is known. */
  readonly #known = Promise.withResolvers<void>();
  readonly #start: StartLeading;
  #ended: Promise<void> = Promise.resolve();
  /** The present leadership: its key, whether the watch has reported it, and the controller that ends the leadership. */
  #held: { readonly key: string; isSeen: boolean; readonly over: AbortController } | undefined;
  #isKnown = false;
  #state: "candidate" | "elected" | "leading" = "candidate";
  /** When this process began to lead, Unix ms; 0 while it does not. */
  #since = 0;
  /** The last known leader, and since when it leads, Unix ms. */
  #other: { readonly name: string; readonly since: number } | undefined;

  constructor(process: SluiceProcess, start: StartLeading) {
    const { store, chance, log, health, metrics } = process;
    this.#process = process;
    this.#start = start;
    this.#log = log.child("leadership");
    this.#status = health.dependency("leadership");
    this.#name = nameOf(chance);
    this.#election = new ElectionWatch({
      store,
      changed: () => this.#electionChanged(),
      lost: (reason) => this.#held?.over.abort(reason),
    });
    metrics.add({
      collect: (to) => {
        to.number("sluice_leader", [], this.#state === "leading" ? 1 : 0);
        to.number("sluice_leader_since_seconds", [], this.#since / 1_000);
      },
    });
  }

  /** The leader, if it is known. */
  get leader(): CandidateInfo | undefined {
    if (this.#state === "leading") return { name: this.#name, address: this.#address };
    // The key of this controller exists before its leadership, and may outlast it.
    const { leader } = this.#election;
    return leader?.name === this.#name ? undefined : leader;
  }

  /**
   * Stands as a candidate until `close`. Resolves when this process leads, stands by, or cannot reach the store; rejects if
   * the start must fail. `listener` is the address of the administration port, if it is open.
   */
  async stand(listener?: string): Promise<void> {
    const { clock, fail } = this.#process;
    this.#address = listener && reachable(listener);
    this.#log.info({ candidate: this.#name }, "standing by as a candidate for the leadership");
    const refused = (thrown: unknown) => {
      if (this.#isKnown) fail("this controller can no longer stand as a candidate", thrown);
      else this.#known.reject(thrown);
    };
    const following = this.#election.follow().catch(refused);
    this.#ended = Promise.all([following, this.#campaign().catch(refused)]).then(() => undefined);
    const disarm = clock.alarm(KNOWN_MS, () => {
      if (this.#state === "candidate") this.#know();
    });
    await this.#known.promise.finally(disarm);
  }

  /** Stops the leader's part, and resigns. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#held?.over.abort("this controller ends");
    this.#election.close();
    // A candidate without a leadership has nothing to resign, and closing the store ends its calls.
    if (this.#state === "candidate") await within(RESIGN_MS, this.#process.clock, this.#ended);
    else await this.#ended;
  }

  async #campaign(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await this.#term();
        failures = 0;
      } catch (thrown) {
        if (signal.aborted) return;
        const fault = Fault.from(thrown);
        if (!this.#isKnown && FATAL.has(fault.code)) throw thrown;
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
        failures += 1;
        const message = `this controller cannot lead, and tries again: ${fault.message}`;
        this.#log.error({ error: thrown }, message);
        this.#status.degraded(message);
        await pause(ms, this.#process.clock, signal);
      }
    }
  }

  /** Waits for the leadership, and leads until it ends. */
  async #term(): Promise<void> {
    const { store } = this.#process;
    const candidate = candidateText({ name: this.#name, address: this.#address });
    this.#log.debug?.({ candidate: this.#name }, "campaigning for the leadership");
    const leadership = await store.lead(CONTROLLER_ELECTION, this.#stop.signal, candidate);
    const { key, revision } = leadership.guard;
    this.#log.debug?.({ candidate: this.#name, key, revision }, "won the election");
    const over = new AbortController();
    const { signal } = over;
    const lost = () => over.abort("its lease was not renewed in time, or another controller leads");
    leadership.lost.addEventListener("abort", lost, { once: true });
    if (leadership.lost.aborted) lost();
    const held = { key, isSeen: false, over };
    this.#held = held;
    this.#state = "elected";
    let leading: { readonly stop: Stop } | undefined;
    try {
      await this.#waitUntilSeen(held);
      if (signal.aborted) return;
      const own = guarded(store, leadership, (reason) => over.abort(reason));
      await this.#restore(own);
      leading = await this.#start(own, signal);
      if (!signal.aborted) this.#lead();
      await aborted(signal);
    } catch (thrown) {
      // Calls fail after the end of the leadership; that is not an error.
      if (signal.aborted) return;
      over.abort("this controller could not start");
      throw thrown;
    } finally {
      leadership.lost.removeEventListener("abort", lost);
      this.#held = undefined;
      this.#log.debug?.({ candidate: this.#name, key, reason: signal.reason }, "resigning");
      this.#standBy(String(signal.reason));
      try {
        await leading?.stop("drain");
      } finally {
        // Its key must be deleted whatever failed, because it blocks other leaders. If the store is away, the lease expires.
        await leadership.resign().catch(() => undefined);
      }
    }
  }

  /** Waits until the watch has reported the key of the won election; otherwise ends the leadership. */
  async #waitUntilSeen(held: {
    readonly key: string;
    isSeen: boolean;
    readonly over: AbortController;
  }) {
    const disarm = this.#process.clock.alarm(SEEN_MS, () => {
      const reason = `it did not see its key of the election within ${SEEN_MS} ms`;
      this.#log.warn(
        { key: held.key },
        `this controller gives up an election that it won: ${reason}`,
      );
      held.over.abort(reason);
    });
    await this.#election.seen(held.key, held.over.signal);
    disarm();
    held.isSeen = true;
    this.#electionChanged();
  }

  #lead(): void {
    this.#state = "leading";
    this.#since = this.#process.clock.wall();
    this.#log.info({ candidate: this.#name }, "this controller leads");
    this.#show();
    this.#know();
  }

  #know(): void {
    this.#isKnown = true;
    this.#known.resolve();
  }

  #electionChanged(): void {
    const held = this.#held;
    // Before the watch has reported the key, its absence means nothing.
    if (held?.isSeen && !this.#election.isCandidate(held.key)) {
      held.over.abort("somebody deleted its key of the election");
    }
    this.#show();
  }

  #standBy(reason: string): void {
    const led = this.#state === "leading";
    this.#state = "candidate";
    this.#since = 0;
    if (led && !this.#stop.signal.aborted) {
      this.#log.warn({ candidate: this.#name }, `this controller no longer leads: ${reason}`);
    }
    this.#show();
  }

  /** Restores API documents that the store lost, unless another controller did so. */
  async #restore(store: Store): Promise<void> {
    const missing = [...this.#election.missing];
    for (const [key, value] of missing) {
      const guards = [{ key, revision: 0 }];
      await store.commit([{ kind: "put", key, value }], { guards });
    }
    if (missing.length === 0) return;
    const message =
      "wrote policies and dynamic configurations of the API again that the store lost";
    this.#log.warn({ keys: missing.length }, message);
  }

  /** Reports the leader in the status and, after a change, in the log. */
  #show(): void {
    const { health, clock } = this.#process;
    const node = health.root.at("system", "leadership");
    const text = (since: number) => new Date(since).toISOString();
    if (this.#state === "leading") {
      this.#other = undefined;
      const line = `leads as ${this.#name} since ${text(this.#since)}`;
      node.ok(line);
      this.#status.ok(line);
      return;
    }
    const { leader } = this;
    if (leader === undefined) {
      this.#other = undefined;
      const line = `stands by as ${this.#name}: no other controller leads`;
      node.ok(line);
      this.#status.degraded(line);
      return;
    }
    const { name, address } = leader;
    if (this.#other?.name !== name) {
      this.#other = { name, since: clock.wall() };
      const known = address === undefined ? {} : { address };
      this.#log.info({ leader: name, ...known }, "another controller leads");
    }
    const where = address === undefined ? "" : `, at ${address}`;
    const seen = `seen since ${text(this.#other.since)}`;
    const line = `stands by as ${this.#name}: ${name} leads, ${seen}${where}`;
    node.ok(line);
    this.#status.ok(line);
    this.#know();
  }
}

/** A wildcard listener is reachable under the name of this host; a Unix socket is not reachable. */
function reachable(listener: string): string | undefined {
  if (listener.startsWith("unix:")) return undefined;
  const { host, port } = splitHostPort(listener);
  return reachableAddress(host, port, hostname);
}

/** The host name and a random id, so that no two processes on one host have the same name. */
function nameOf(chance: Chance): string {
  return `${hostname()}/${uuid(chance)}`;
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** The store, writable only while this process leads. `deposed` is called when a refused write shows that it does not. */
function guarded(store: Store, { guard }: Leadership, deposed: (reason: string) => void): Store {
  return {
    list: (prefix, options) => store.list(prefix, options),
    lease: (options) => store.lease(options),
    watch: (prefixes, signal) => store.watch(prefixes, signal),
    lead: (name, signal, candidate) => store.lead(name, signal, candidate),
    close: () => store.close(),
    async commit(ops, options = {}) {
      const { guards = [] } = options;
      const revision = await store.commit(ops, { ...options, guards: [guard, ...guards] });
      if (revision !== undefined || guards.length > 0) return revision;
      deposed("a write was refused because the store knows of another leadership");
      throw new Fault("ABORTED", "this controller no longer leads");
    },
  };
}
