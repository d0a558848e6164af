// The status tree: what parts of the process say of themselves, and what probes ask. A node is addressed
// by pairs `key/value`; it is unwell when it or anything below it holds an error.

import type { Clock } from "#base/clock.ts";

/** As protojson has an `Any`: the type's URL, and the members of the message. */
export interface StatusMessage {
  readonly "@type": string;
  /** Of the well-known types. */
  readonly value?: unknown;
  readonly [member: string]: unknown;
}

/** What a node says when it is asked. */
export interface Told {
  readonly message: StatusMessage;
  /** Undefined: it is well. */
  readonly error: string | undefined;
  /** Unix ms: when it was so. */
  readonly at: number;
}

export interface StatusView {
  readonly message: StatusMessage | null;
  readonly error: { readonly message: string } | null;
  /** RFC 3339, UTC. */
  readonly timestamp: string | null;
}

export interface GroupView {
  /** Null only where no such node exists. */
  readonly status: StatusView | null;
  /** By `key:value`, in order of name. */
  readonly groups: Readonly<Record<string, GroupView>>;
}

const SILENT: StatusView = { message: null, error: null, timestamp: null };

export class StatusNode {
  readonly #clock: Clock;
  readonly #below = new Map<string, StatusNode>();
  #status: StatusView = SILENT;
  #tell: (() => Told) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The node below, made when it is new. */
  at(key: string, value: string): StatusNode {
    const name = nameOf(key, value);
    const node = this.#below.get(name) ?? new StatusNode(this.#clock);
    this.#below.set(name, node);
    return node;
  }

  /** The node at `key/value/key/value…`; "" is this one. Undefined when there is none. Makes nothing. */
  find(path: string): StatusNode | undefined {
    const parts = path === "" ? [] : path.split("/");
    if (parts.length % 2 !== 0) return undefined;
    let node: StatusNode | undefined = this;
    for (let at = 0; at < parts.length && node !== undefined; at += 2)
      node = node.#below.get(nameOf(parts[at] ?? "", parts[at + 1] ?? ""));
    return node;
  }

  remove(key: string, value: string): void {
    this.#below.delete(nameOf(key, value));
  }

  ok(message: string): void {
    const type = "type.googleapis.com/google.protobuf.StringValue";
    const told = { "@type": type, value: message };
    this.#tell = undefined;
    this.#status = { message: told, error: null, timestamp: this.#stamp() };
  }

  /** `message` is shown to whoever may ask for the status: no secrets in it. */
  fail(message: string): void {
    this.#tell = undefined;
    this.#status = { message: null, error: { message }, timestamp: this.#stamp() };
  }

  /** For what changes more often than anybody looks: made when it is asked for. */
  tells(tell: () => Told): void {
    this.#tell = tell;
  }

  /** The first error here or below, with the path to it; undefined when all is well. */
  trouble(): string | undefined {
    const { error } = this.#now();
    if (error !== null) return error.message;
    for (const [name, node] of this.#below) {
      const found = node.trouble();
      if (found !== undefined) return `${name}: ${found}`;
    }
    return undefined;
  }

  view(): GroupView {
    const below = [...this.#below].sort(([a], [b]) => (a < b ? -1 : 1));
    const groups = Object.fromEntries(below.map(([name, node]) => [name, node.view()]));
    return { status: this.#now(), groups };
  }

  #now(): StatusView {
    const told = this.#tell?.();
    if (told === undefined) return this.#status;
    const error = told.error === undefined ? null : { message: told.error };
    return { message: told.message, error, timestamp: timestamp(told.at) };
  }

  #stamp(): string {
    return timestamp(this.#clock.wall());
  }
}

/** Keys never hold a colon, so a name is split in one way only; values may. */
function nameOf(key: string, value: string): string {
  return `${key.replaceAll(":", "_")}:${value}`;
}

/** Unix ms as RFC 3339 with microseconds, of which the float is still sure. */
export function timestamp(ms: number): string {
  const micros = Math.round(ms * 1_000);
  const whole = Math.floor(micros / 1_000_000);
  const date = new Date(whole * 1_000).toISOString().slice(0, 19);
  return `${date}.${String(micros - whole * 1_000_000).padStart(6, "0")}Z`;
}
