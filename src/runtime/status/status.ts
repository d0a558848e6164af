// The status tree: each part of the process reports its state in a node, and probes query nodes. A node is addressed by
// pairs `key/value`; it is unhealthy when it or any node below it holds an error.

import type { Clock } from "#base/clock.ts";

/** A protobuf `Any` as protobuf JSON writes it: the URL of the type and the members of the message. */
export interface StatusMessage {
  readonly "@type": string;
  /** Only for well-known types. */
  readonly value?: unknown;
  readonly [member: string]: unknown;
}

/** The state of a node at the moment of a query. */
export interface NodeReport {
  readonly message: StatusMessage;
  /** Undefined when the node is healthy. */
  readonly error: string | undefined;
  /** When this state was observed, Unix milliseconds. */
  readonly at: number;
}

export interface StatusView {
  readonly message: StatusMessage | null;
  readonly error: { readonly message: string } | null;
  /** RFC 3339, UTC. */
  readonly timestamp: string | null;
}

export interface GroupView {
  /** Null only when no such node exists. */
  readonly status: StatusView | null;
  /** By `key:value`, sorted by name. */
  readonly groups: Readonly<Record<string, GroupView>>;
}

/** Child nodes that are built when the status is read, for things of which there are thousands. */
export interface ChildNodes {
  /** Unique, in any order. */
  names(): Iterable<string>;
  /** Fills `node`, which is new; returns false when there is no child of this name. */
  fill(name: string, node: StatusNode): boolean;
}

const NO_STATUS: StatusView = { message: null, error: null, timestamp: null };

export class StatusNode {
  readonly #clock: Clock;
  readonly #parent: StatusNode | undefined;
  readonly #listeners: (() => void)[] = [];
  readonly #below = new Map<string, StatusNode>();
  #children: { readonly key: string; readonly nodes: ChildNodes } | undefined;
  #status: StatusView = NO_STATUS;
  #report: (() => NodeReport) | undefined;

  constructor(clock: Clock, parent?: StatusNode) {
    this.#clock = clock;
    this.#parent = parent;
  }

  /** The child node, created on first use. */
  at(key: string, value: string): StatusNode {
    const name = nameOf(key, value);
    const node = this.#below.get(name) ?? new StatusNode(this.#clock, this);
    this.#below.set(name, node);
    return node;
  }

  /** The node at `key/value/key/value…`, or undefined; "" is this node. Creates nothing. */
  find(path: string): StatusNode | undefined {
    const parts = path === "" ? [] : path.split("/");
    if (parts.length % 2 !== 0) return undefined;
    let node: StatusNode | undefined = this;
    for (let at = 0; at < parts.length && node !== undefined; at += 2)
      node = node.#child(parts[at] ?? "", parts[at + 1] ?? "");
    return node;
  }

  remove(key: string, value: string): void {
    if (this.#below.delete(nameOf(key, value))) this.#changed();
  }

  /** Calls `listener` after each change of this node or one below it, except those that are computed when queried. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Children `key:<name>` beside those of `at`. A node has one such provider. */
  childrenWith(key: string, nodes: ChildNodes): void {
    this.#children = { key, nodes };
  }

  /** `at` is when the state was observed, Unix milliseconds. */
  ok(message: string, at = this.#clock.wall()): void {
    this.#set({ message: statusText(message), error: null, timestamp: timestamp(at) });
  }

  /** Everyone who may query the status sees `message`, so it must hold no secrets. */
  fail(message: string): void {
    const at = timestamp(this.#clock.wall());
    this.#set({ message: null, error: { message }, timestamp: at });
  }

  /** For a state that changes more often than it is queried: `report` is called at each query. */
  reportWith(report: () => NodeReport): void {
    this.#report = report;
  }

  /** The first error of this node or one below it, preceded by the path to it; undefined when all are healthy. */
  firstError(): string | undefined {
    const { error } = this.#now();
    if (error !== null) return error.message;
    for (const [name, node] of this.#all()) {
      const found = node.firstError();
      if (found !== undefined) return `${name}: ${found}`;
    }
    return undefined;
  }

  view(): GroupView {
    const below = [...this.#all()].sort(([a], [b]) => (a < b ? -1 : 1));
    const groups = Object.fromEntries(below.map(([name, node]) => [name, node.view()]));
    return { status: this.#now(), groups };
  }

  #set(status: StatusView): void {
    this.#report = undefined;
    this.#status = status;
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
    if (this.#parent !== undefined) this.#parent.#changed();
  }

  #child(key: string, value: string): StatusNode | undefined {
    return this.#below.get(nameOf(key, value)) ?? this.#built(key, value);
  }

  #built(key: string, value: string): StatusNode | undefined {
    if (this.#children?.key !== key) return undefined;
    const node = new StatusNode(this.#clock);
    return this.#children.nodes.fill(value, node) ? node : undefined;
  }

  *#all(): Generator<readonly [name: string, node: StatusNode]> {
    yield* this.#below;
    if (this.#children === undefined) return;
    const { key, nodes } = this.#children;
    for (const value of nodes.names()) {
      const node = this.#built(key, value);
      if (node !== undefined) yield [nameOf(key, value), node];
    }
  }

  #now(): StatusView {
    const report = this.#report?.();
    if (report === undefined) return this.#status;
    const error = report.error === undefined ? null : { message: report.error };
    return { message: report.message, error, timestamp: timestamp(report.at) };
  }
}

export function statusText(value: string): StatusMessage {
  return { "@type": "type.googleapis.com/google.protobuf.StringValue", value };
}

/** Colons in the key are replaced, so that a name can be split in only one way; values may hold colons. */
function nameOf(key: string, value: string): string {
  return `${key.replaceAll(":", "_")}:${value}`;
}

/** Unix milliseconds as RFC 3339 with microseconds, the finest unit that the double represents reliably. */
export function timestamp(ms: number): string {
  const micros = Math.round(ms * 1_000);
  const whole = Math.floor(micros / 1_000_000);
  const date = new Date(whole * 1_000).toISOString().slice(0, 19);
  return `${date}.${String(micros - whole * 1_000_000).padStart(6, "0")}Z`;
}
