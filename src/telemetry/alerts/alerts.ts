// Passes the alerts of circuits on to receivers. Each receiver has a bounded queue of its own, so that a slow or
// unreachable one delays neither the others nor the circuits.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { Alert } from "#circuit/component.ts";
import type { MetricSink, MetricSource } from "../metrics/table.ts";

/** An alert with the policy that fired it and the time for which it holds. */
export interface FiredAlert {
  readonly alert: Alert;
  readonly policyName: string;
  /** When it fired first, Unix ms. */
  readonly startsAt: number;
  /** When it resolves unless it fires again, Unix ms; infinite if it never does. */
  readonly endsAt: number;
}

/** Delivers alerts to one place outside. A further kind of receiver implements this interface in a file of its own. */
export interface AlertReceiver {
  /** Names it in log lines and metrics, so it must hold no credentials. Receivers of one name are counted together. */
  readonly name: string;
  readonly kind: ReceiverKind;
  /**
   * Delivers a batch, never empty. `refused`: the receiver rejects at least one alert of it, and all of them have to
   * be sent again without that one. @throws Fault when the alerts could not be delivered, in words for the log
   */
  send(alerts: readonly FiredAlert[]): Promise<"sent" | "refused">;
  /** Aborts a delivery in progress and frees all resources. Called more than once; later deliveries fail. */
  close(): Promise<void>;
}

/** Words for a kind of receiver in log lines. */
export interface ReceiverKind {
  /** Field that holds the receiver's name, such as `alertmanager`. */
  readonly field: string;
  /** The kind with its article, such as `an Alertmanager`. */
  readonly phrase: string;
}

/** BatchAlertsConfig. */
export interface AlertBatchSettings {
  /** Maximum number of alerts in one request; 0 means no limit. */
  readonly send_batch_max_size: number;
  /** Number of waiting alerts that triggers sending; 0 means only the timeout does. */
  readonly send_batch_size: number;
  /** Milliseconds that an alert waits at most. */
  readonly timeout: number;
}

export interface AlertsOptions {
  readonly receivers: readonly AlertReceiver[];
  /** Maximum number of alerts that wait for each receiver; at least one may wait. */
  readonly queueSize: number;
  readonly batch: AlertBatchSettings;
  readonly clock: Clock;
  readonly log: Log;
}

/** `failed`: could not be delivered; `refused`: the receiver rejects the alert; `dropped`: the queue was full. */
type AlertResult = "sent" | "failed" | "refused" | "dropped";

const RESULTS: readonly AlertResult[] = ["sent", "failed", "refused", "dropped"];
/** Maximum number of names of refused alerts that are remembered, so that each is logged once. */
const MAX_REFUSED_NAMES = 1_000;
/** Milliseconds that `close` may take to send the remaining alerts. */
const CLOSE_TIMEOUT_MS = 2_000;

export class Alerts implements MetricSource {
  readonly #queues: readonly AlertQueue[];

  constructor(options: AlertsOptions) {
    this.#queues = options.receivers.map((receiver) => new AlertQueue(receiver, options));
  }

  /** Queues an alert that fires at `at` (Unix ms). It resolves by itself unless it fires again. Returns at once. */
  fire(alert: Alert, policyName: string, at: number): void {
    const fired: FiredAlert = { alert, policyName, startsAt: at, endsAt: at + alert.resolveMs };
    const identity = identityOf(fired);
    for (const queue of this.#queues) queue.put(identity, fired);
  }

  collect(to: MetricSink): void {
    for (const name of new Set(this.#queues.map((queue) => queue.name))) {
      const same = this.#queues.filter((queue) => queue.name === name);
      for (const result of RESULTS) {
        const count = same.reduce((sum, { counts }) => sum + counts[result], 0);
        to.number("sluice_alerts_total", [name, result], count);
      }
    }
  }

  /** Sends the waiting alerts, for 2 s at most, and closes the receivers. */
  async close(): Promise<void> {
    await Promise.all(this.#queues.map((queue) => queue.close()));
  }
}

/** Equal for alerts that differ only in their times. */
function identityOf({ alert, policyName }: FiredAlert): string {
  const { componentId, name, severity, channels, labels } = alert;
  return JSON.stringify([policyName, componentId, name, severity, channels, [...labels]]);
}

/** The alerts that wait for one receiver. */
class AlertQueue {
  readonly counts: Record<AlertResult, number> = { sent: 0, failed: 0, refused: 0, dropped: 0 };
  readonly #receiver: AlertReceiver;
  readonly #options: AlertsOptions;
  /** By identity of the alert: firing again while it waits only extends it. */
  readonly #waiting = new Map<string, FiredAlert>();
  #disarm: (() => void) | undefined;
  #sending: Promise<void> | undefined;
  readonly #refused = new Set<string>();
  #healthy = true;
  #closed = false;

  constructor(receiver: AlertReceiver, options: AlertsOptions) {
    this.#receiver = receiver;
    this.#options = options;
  }

  get name(): string {
    return this.#receiver.name;
  }

  put(identity: string, fired: FiredAlert): void {
    if (this.#closed) return;
    const before = this.#waiting.get(identity);
    const { endsAt } = fired;
    this.#waiting.set(identity, before === undefined ? fired : { ...before, endsAt });
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size > Math.max(1, this.#options.queueSize) && oldest !== undefined) {
      this.#waiting.delete(oldest);
      this.counts.dropped += 1;
    }
    this.#arm();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#disarm?.();
    const { clock } = this.#options;
    const disarm = clock.alarm(CLOSE_TIMEOUT_MS, () => void this.#receiver.close());
    await this.#sending;
    // Stops at the first failure, so that an unreachable receiver is not tried once per batch.
    while (this.#waiting.size > 0 && this.#healthy) await this.#send();
    disarm();
    this.counts.dropped += this.#waiting.size;
    this.#waiting.clear();
    await this.#receiver.close();
  }

  /** Sends when a batch is full or the timeout is over, one batch at a time. */
  #arm(): void {
    if (this.#closed || this.#sending !== undefined || this.#waiting.size === 0) return;
    const { clock, batch } = this.#options;
    const { send_batch_size: enough, timeout } = batch;
    if (enough > 0 && this.#waiting.size >= enough) this.#begin();
    else this.#disarm ??= clock.alarm(timeout, () => this.#begin());
  }

  #begin(): void {
    this.#disarm?.();
    this.#disarm = undefined;
    this.#sending = this.#send().finally(() => {
      this.#sending = undefined;
      this.#arm();
    });
  }

  async #send(): Promise<void> {
    const limit = this.#options.batch.send_batch_max_size || this.#waiting.size;
    const batch = [...this.#waiting].slice(0, limit);
    for (const [identity] of batch) this.#waiting.delete(identity);
    await this.#deliver(batch.map(([, fired]) => fired));
  }

  /** Sends a refused batch again in halves, down to the alert that is rejected. */
  async #deliver(alerts: readonly FiredAlert[]): Promise<void> {
    const result = await this.#attempt(alerts);
    if (result !== "refused" || alerts.length <= 1) {
      this.counts[result] += alerts.length;
      if (result === "refused") this.#logRefused(alerts[0]?.alert.name ?? "");
      return;
    }
    const half = Math.ceil(alerts.length / 2);
    await this.#deliver(alerts.slice(0, half));
    await this.#deliver(alerts.slice(half));
  }

  async #attempt(alerts: readonly FiredAlert[]): Promise<Exclude<AlertResult, "dropped">> {
    try {
      const result = await this.#receiver.send(alerts);
      this.#logHealth(undefined);
      return result;
    } catch (thrown) {
      this.#logHealth(Fault.from(thrown).message);
      return "failed";
    }
  }

  /** Logs one line when deliveries start to fail and one when they work again. */
  #logHealth(failure: string | undefined): void {
    const { log } = this.#options;
    const { field, phrase } = this.#receiver.kind;
    if (failure !== undefined && this.#healthy) {
      log.warn({ [field]: this.name, why: failure }, `cannot send alerts to ${phrase}`);
    } else if (failure === undefined && !this.#healthy) {
      log.info({ [field]: this.name }, `sending alerts to ${phrase} works again`);
    }
    this.#healthy = failure === undefined;
  }

  #logRefused(alert: string): void {
    if (this.#refused.has(alert)) return;
    if (this.#refused.size >= MAX_REFUSED_NAMES) this.#refused.clear();
    this.#refused.add(alert);
    const { field, phrase } = this.#receiver.kind;
    this.#options.log.warn({ [field]: this.name, alert }, `${phrase} refused an alert`);
  }
}
