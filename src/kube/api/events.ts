// Events about objects, which `kubectl describe` shows. They are best effort: an event that cannot be written is dropped, and
// nothing waits for one.

import { randomBytes } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import { Fault, isServerAway } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import type { KubeClient } from "./client.ts";
import type { KubeObject, Resource } from "./objects.ts";

/** The object that an event is about. `kubectl describe` finds the event by the uid. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string | undefined;
}

export interface EventText {
  readonly type: "Normal" | "Warning";
  /** One word in CamelCase, for programs. */
  readonly reason: string;
  readonly note: string;
}

export type RecordEvent = (subject: EventSubject, text: EventText) => void;

export interface EventRecorderOptions {
  readonly client: Pick<KubeClient, "create">;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}

const EVENTS: Resource = { group: "events.k8s.io", version: "v1", plural: "events" };
const CONTROLLER = "sluice-controller";
/** The longest note that the API server accepts. */
const MAX_NOTE = 1_024;
/** The longest name of an object, without the suffix of an event's name. */
const MAX_NAME = 230;
/** The most events that wait to be written. */
const MAX_WAITING = 500;
/**
 * An object gets only a few events per window, and never the same one twice in a row, so that flapping does not flood the
 * server.
 */
const WINDOW_MS = 600_000;
const MAX_PER_OBJECT = 20;
const MAX_OBJECTS = 10_000;

interface Recent {
  readonly since: number;
  count: number;
  last: string;
}

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #waiting: KubeObject[] = [];
  /** The events of each object in its window, oldest window first. */
  readonly #recent = new Map<string, Recent>();
  readonly #stop = new AbortController();
  #writing: Promise<void> | undefined;
  /** The reason why the last event was not written; empty if it was. */
  #failing = "";

  constructor(options: EventRecorderOptions) {
    this.#options = options;
  }

  readonly record: RecordEvent = (subject, text) => {
    if (this.#stop.signal.aborted || this.#waiting.length >= MAX_WAITING) return;
    if (!this.#mayHave(subject, text)) return;
    this.#waiting.push(this.#eventOf(subject, text));
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  };

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#writing;
  }

  #mayHave(
    { apiVersion, kind, namespace, name, uid = "" }: EventSubject,
    text: EventText,
  ): boolean {
    const key = [apiVersion, kind, namespace, name, uid].join(" ");
    const now = this.#options.clock.now();
    let recent = this.#recent.get(key);
    if (recent === undefined || now - recent.since >= WINDOW_MS) {
      recent = { since: now, count: 0, last: "" };
      // Reinserted, so that the map stays ordered by window.
      this.#recent.delete(key);
      this.#recent.set(key, recent);
      const [oldest] = this.#recent.keys();
      if (this.#recent.size > MAX_OBJECTS && oldest !== undefined) this.#recent.delete(oldest);
    }
    const said = `${text.reason} ${text.note}`;
    if (said === recent.last || recent.count >= MAX_PER_OBJECT) return false;
    recent.count += 1;
    recent.last = said;
    return true;
  }

  #eventOf(regarding: EventSubject, { type, reason, note }: EventText): KubeObject {
    const { namespace, name } = regarding;
    const suffix = randomBytes(8).toString("hex");
    const event = {
      apiVersion: `${EVENTS.group}/${EVENTS.version}`,
      kind: "Event",
      metadata: { name: `${name.slice(0, MAX_NAME)}.${suffix}`, namespace },
      eventTime: new Date(this.#options.clock.wall()).toISOString().replace("Z", "000Z"),
      reportingController: CONTROLLER,
      reportingInstance: CONTROLLER,
      action: reason,
      type,
      reason,
      note: note.slice(0, MAX_NOTE),
      regarding,
    };
    return event;
  }

  async #writeAll(): Promise<void> {
    const { client, log } = this.#options;
    const { signal } = this.#stop;
    for (;;) {
      const event = this.#waiting.shift();
      if (event === undefined || signal.aborted) return;
      try {
        await client.create(EVENTS, event, signal);
        this.#failing = "";
      } catch (thrown) {
        if (signal.aborted) return;
        const fault = Fault.from(thrown);
        if (fault.message !== this.#failing && !isServerAway(fault))
          log.warn({}, `an event was not written, and others may be missing: ${fault.message}`);
        this.#failing = fault.message;
      }
    }
  }
}
