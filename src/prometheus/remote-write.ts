// Writes the metrics of this process to a Prometheus server (remote write 1.0), which the circuits of controllers query.
// While the server is unavailable, requests wait in bounded memory; the oldest are dropped and counted.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { HttpClientRequest, HttpClientResponse } from "#client/http.ts";
import { serverUrl } from "./address.ts";
import { encodeSamples, type WrittenSample } from "./remote-write/encode.ts";

export interface RemoteWriteOptions {
  /** `prometheus.address`: a URL, host:port or a name. */
  readonly address: string;
  /** Makes calls by `prometheus.http_client`. */
  readonly http: { call(call: HttpClientRequest): Promise<HttpClientResponse> };
  /** All samples now. */
  readonly samples: () => Iterable<WrittenSample>;
  /** Labels that are added to every series that lacks them. */
  readonly labels: Readonly<Record<string, string>>;
  /** Time between two samples of a series, in ms. */
  readonly everyMs: number;
  /** Maximum number of series in one request; 0 means no limit. */
  readonly maxSeries: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when the server stops accepting samples, with the reason, and with undefined when it accepts them again. */
  readonly state?: (trouble: string | undefined) => void;
}

interface WaitingRequest {
  readonly body: Uint8Array;
  readonly series: number;
}

/** Memory for requests that wait: several minutes of a large agent. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
const ATTEMPT_MS = 10_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export const RESULTS = ["sent", "refused", "dropped"] as const;

export class RemoteWrite {
  /**
   * Samples by result: `refused` by the server as unacceptable, or `dropped` for lack of room while it was away.
   */
  readonly counts: Record<(typeof RESULTS)[number], number> = { sent: 0, refused: 0, dropped: 0 };
  readonly #options: RemoteWriteOptions;
  readonly #url: string;
  readonly #waiting: WaitingRequest[] = [];
  readonly #stop = new AbortController();
  #waitingBytes = 0;
  #pauseMs = 0;
  #healthy: boolean | undefined;
  #sending: Promise<void> | undefined;
  #disarmNext: () => void;
  #disarmPause = () => {};

  /** @throws Fault INVALID_ARGUMENT for an address that cannot be used */
  constructor(options: RemoteWriteOptions) {
    this.#options = options;
    this.#url = serverUrl(options.address, "/api/v1/write");
    this.#disarmNext = options.clock.alarm(options.everyMs, () => this.#take());
  }

  /** Bytes of requests that wait for the server. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  async close(): Promise<void> {
    this.#disarmNext();
    this.#disarmPause();
    this.#stop.abort();
    await this.#sending;
  }

  #take(): void {
    const { clock, everyMs, samples, labels, maxSeries } = this.#options;
    this.#disarmNext = clock.alarm(everyMs, () => this.#take());
    const at = clock.wall();
    let batch: WrittenSample[] = [];
    for (const sample of samples()) {
      batch.push({ labels: { ...labels, ...sample.labels }, value: sample.value });
      if (batch.length < (maxSeries || Number.POSITIVE_INFINITY)) continue;
      this.#enqueue(batch, at);
      batch = [];
    }
    if (batch.length > 0) this.#enqueue(batch, at);
    if (this.#pauseMs === 0) this.#send();
  }

  #enqueue(batch: readonly WrittenSample[], at: number): void {
    const body = encodeSamples(batch, at);
    this.#waiting.push({ body, series: batch.length });
    this.#waitingBytes += body.length;
    while (this.#waitingBytes > MAX_WAITING_BYTES) this.#removeOldest("dropped");
  }

  /** Removes the oldest request from the queue. */
  #removeOldest(result: (typeof RESULTS)[number]): void {
    const oldest = this.#waiting.shift();
    if (oldest === undefined) return;
    this.#waitingBytes -= oldest.body.length;
    this.counts[result] += oldest.series;
  }

  #send(): void {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  /** Sends in order, one request at a time, until none waits or the server fails. */
  async #sendAll(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const next = this.#waiting[0];
      if (next === undefined) return;
      let result: "sent" | "refused";
      try {
        result = await this.#attempt(next.body);
      } catch (thrown) {
        if (!this.#stop.signal.aborted) this.#failed(Fault.from(thrown).message);
        return;
      }
      this.#pauseMs = 0;
      this.#report(undefined);
      // It may have been dropped meanwhile to make room.
      if (this.#waiting[0] === next) this.#removeOldest(result);
    }
  }

  async #attempt(body: Uint8Array): Promise<"sent" | "refused"> {
    const { status } = await this.#options.http.call({
      method: "POST",
      url: this.#url,
      headers: {
        "content-type": "application/x-protobuf",
        "content-encoding": "snappy",
        "x-prometheus-remote-write-version": "0.1.0",
      },
      body,
      timeoutMs: ATTEMPT_MS,
      signal: this.#stop.signal,
    });
    if (status >= 200 && status < 300) return "sent";
    // The server would refuse these samples later, too. Any other failure may pass.
    if (status === 400 || status === 413 || status === 422) return "refused";
    throw new Fault("UNAVAILABLE", `the metrics server responded with status ${status}`);
  }

  #failed(why: string): void {
    this.#report(why);
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2 || FIRST_PAUSE_MS);
    this.#disarmPause = this.#options.clock.alarm(this.#pauseMs, () => this.#send());
  }

  /** One log line for each transition. */
  #report(trouble: string | undefined): void {
    const { log, state } = this.#options;
    state?.(trouble);
    const healthy = trouble === undefined;
    if (healthy === this.#healthy) return;
    if (!healthy) log.warn({ why: trouble }, "cannot write metrics to the metrics server");
    else if (this.#healthy === false)
      log.info({}, "writing metrics to the metrics server works again");
    this.#healthy = healthy;
  }
}
