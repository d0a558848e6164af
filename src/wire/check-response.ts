// The answer of a check in binary: CheckResponse, its LimiterDecisions, and the reply of FlowEnd. What
// never changes about a component or classifier is encoded once and kept with the object itself.

import { Fragment } from "./base64.ts";
import type { InflightRef } from "./check-request.ts";
import { writePair, writeRef } from "./check-request-writer.ts";
import { ProtoWriter } from "./proto-writer.ts";

/** Sorted label keys of a reply, with their encoded forms once somebody needed them. */
export class KeyList {
  readonly keys: readonly string[];
  #proto: Fragment | undefined;
  #followed: Fragment | undefined;
  #follower: Fragment | undefined;
  #json: Buffer | undefined;

  constructor(keys: readonly string[]) {
    this.keys = keys;
  }

  /** As field `flow_label_keys` of CheckResponse. */
  get proto(): Fragment {
    if (this.#proto === undefined) {
      const out = new ProtoWriter();
      for (const key of this.keys) out.text(0x32, key);
      this.#proto = new Fragment(out.copy());
    }
    return this.#proto;
  }

  /** The same with more behind it, as one piece. Kept, since it is nearly always the same. */
  followedBy(more: Fragment): Fragment {
    if (this.#followed === undefined || this.#follower !== more) {
      this.#followed = new Fragment(Buffer.concat([this.proto.bytes, more.bytes]));
      this.#follower = more;
    }
    return this.#followed;
  }

  get json(): Buffer {
    this.#json ??= Buffer.from(JSON.stringify(this.keys));
    return this.#json;
  }
}

/** Map entry of `telemetry_flow_labels` in CheckResponse. */
export const TELEMETRY_ENTRY = 0x3a;

/** Labels for telemetry that are written from where they lie, with no strings made of them. */
export interface TelemetryWriter {
  /** Those that hardly ever change. */
  readonly fixed: Fragment;
  /** All others. */
  writeTelemetry(out: ProtoWriter): void;
}

/** Names one component; stays the same object as long as its plan lives. */
export interface ReportedComponent {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly kind: "rate_limiter" | "concurrency_limiter" | "sampler" | "ramp_sampler";
  readonly deniedStatus: number;
}

export interface ReportedDecision {
  readonly component: ReportedComponent;
  readonly dropped: boolean;
  readonly keyMissing: boolean;
  readonly label: string;
  /** The end of `label`, where what comes before it is the same in all decisions of the component. */
  readonly value?: string | undefined;
  readonly remaining: number;
  readonly current: number;
  readonly consumed: number;
  /** ms; -1 leaves the field out. */
  readonly waitMs: number;
  readonly requestId: string;
  /** The failure mode that answered; absent when the limiter itself did. */
  readonly failure: string | undefined;
}

/** Stays the same object per plan and error. */
export interface ReportedClassifier {
  readonly policyName: string;
  readonly policyHash: string;
  readonly classifierIndex: number;
  readonly error: number;
}

export interface CacheAnswer {
  readonly missed: boolean;
  readonly error: string;
}

/** The reply's part about caches: one answer per key that was asked for. */
export interface CacheReply {
  readonly result: CacheAnswer | undefined;
  readonly global: ReadonlyMap<string, CacheAnswer>;
}

/** Everything that a CheckResponse says. */
export interface CheckReply {
  /** Unix ms, fractions included. */
  readonly start: number;
  readonly end: number;
  readonly services: readonly string[];
  readonly controlPoint: string;
  readonly keys: KeyList;
  /** Names and values in turn. */
  readonly telemetry: readonly string[];
  readonly accepted: boolean;
  readonly reason: number;
  readonly classifiers: readonly ReportedClassifier[];
  readonly fluxMeters: readonly string[];
  readonly decisions: readonly ReportedDecision[];
  /** 0 leaves the field out. */
  readonly waitMs: number;
  readonly deniedStatus: number;
  readonly cache: CacheReply | undefined;
  readonly expectEnd: boolean;
}

export interface ReturnStatus {
  readonly ref: InflightRef;
  readonly returned: boolean;
  readonly error: string;
}

const SAMPLER_INFO = (22 << 3) | 2;

/** The member of the oneof `details` by the component's kind. */
const INFO_TAG = {
  rate_limiter: (20 << 3) | 2,
  sampler: SAMPLER_INFO,
  ramp_sampler: SAMPLER_INFO,
  concurrency_limiter: (24 << 3) | 2,
} as const;

const EXPECT_END = 16 << 3;

/** Sluice's own field `failure_mode` of LimiterDecision. */
const FAILURE_MODE = (2000 << 3) | 2;

/** What does not change about a component. */
interface KnownComponent {
  /** Fields 1 to 3 of a LimiterDecision. */
  readonly names: Fragment;
  /** What labels with a value begin with; undefined until one was met. */
  prefix: Buffer | undefined;
}

/** Writes check responses, one after the other, into one buffer. */
export class CheckResponseWriter {
  readonly #out = new ProtoWriter();
  readonly #components = new WeakMap<ReportedComponent, KnownComponent>();
  readonly #classifiers = new WeakMap<ReportedClassifier, Fragment>();

  /** The encoded message, valid until the next write. `telemetry` has more labels than the reply's own. */
  write(reply: CheckReply, telemetry?: TelemetryWriter): ProtoWriter {
    const out = this.#out;
    out.reset();
    out.time(0x0a, reply.start);
    out.time(0x12, reply.end);
    for (const service of reply.services) out.text(0x22, service);
    out.textField(0x2a, reply.controlPoint);
    if (telemetry === undefined) out.fragment(reply.keys.proto);
    else {
      out.fragment(reply.keys.followedBy(telemetry.fixed));
      telemetry.writeTelemetry(out);
    }
    const pairs = reply.telemetry;
    for (let at = 0; at < pairs.length; at += 2) {
      writePair(out, TELEMETRY_ENTRY, pairs[at] ?? "", pairs[at + 1] ?? "");
    }
    out.uint32Field(0x40, reply.accepted ? 0 : 1);
    out.uint32Field(0x48, reply.reason);
    for (const classifier of reply.classifiers) out.fragment(this.#classifier(classifier));
    for (const meter of reply.fluxMeters) {
      const start = out.open(0x5a);
      out.textField(0x0a, meter);
      out.close(start);
    }
    for (const decision of reply.decisions) this.#writeDecision(decision);
    if (reply.waitMs > 0) out.time(0x6a, reply.waitMs);
    out.uint32Field(0x70, reply.deniedStatus);
    if (reply.cache !== undefined) this.#writeCache(reply.cache);
    if (reply.expectEnd) {
      out.tag(EXPECT_END);
      out.uint32(1);
    }
    return out;
  }

  #writeDecision(decision: ReportedDecision): void {
    const out = this.#out;
    const { component } = decision;
    const known = this.#components.get(component) ?? this.#learn(component);
    const start = out.open(0x62, 2);
    out.fragment(known.names);
    out.uint32Field(0x20, decision.dropped ? 1 : 0);
    out.uint32Field(0x28, decision.keyMissing ? 1 : 0);
    out.uint32Field(0x50, component.deniedStatus);
    if (decision.waitMs >= 0) out.time(0x5a, decision.waitMs);
    const tag = INFO_TAG[component.kind];
    const info = out.open(tag);
    this.#writeLabel(decision, known);
    if (tag !== SAMPLER_INFO) {
      out.doubles(0x12, decision.remaining, decision.current, decision.consumed);
      if (component.kind === "concurrency_limiter") out.textField(0x1a, decision.requestId);
    }
    out.close(info);
    if (decision.failure !== undefined) out.textField(FAILURE_MODE, decision.failure);
    out.close(start, 2);
  }

  #writeLabel({ label, value }: ReportedDecision, known: KnownComponent): void {
    if (value === undefined || label === "") {
      this.#out.textField(0x0a, label);
      return;
    }
    known.prefix ??= Buffer.from(label.slice(0, label.length - value.length));
    this.#out.textBehind(0x0a, known.prefix, value);
  }

  #learn(component: ReportedComponent): KnownComponent {
    const out = new ProtoWriter();
    out.textField(0x0a, component.policyName);
    out.textField(0x12, component.policyHash);
    out.textField(0x1a, component.componentId);
    const known = { names: new Fragment(out.copy()), prefix: undefined };
    this.#components.set(component, known);
    return known;
  }

  /** A whole ClassifierInfo, tag included. */
  #classifier(classifier: ReportedClassifier): Fragment {
    const known = this.#classifiers.get(classifier);
    if (known !== undefined) return known;
    const out = new ProtoWriter();
    const start = out.open(0x52);
    out.textField(0x0a, classifier.policyName);
    out.textField(0x12, classifier.policyHash);
    if (classifier.classifierIndex !== 0) {
      out.tag(0x18);
      out.int64(classifier.classifierIndex);
    }
    out.uint32Field(0x28, classifier.error);
    out.close(start);
    const encoded = new Fragment(out.copy());
    this.#classifiers.set(classifier, encoded);
    return encoded;
  }

  #writeCache(cache: CacheReply): void {
    const out = this.#out;
    const start = out.open(0x7a);
    if (cache.result !== undefined) this.#writeAnswer(0x0a, cache.result);
    for (const [key, answer] of cache.global) {
      const entry = out.open(0x12);
      out.text(0x0a, key);
      this.#writeAnswer(0x12, answer);
      out.close(entry);
    }
    out.close(start);
  }

  #writeAnswer(tag: number, answer: CacheAnswer): void {
    const out = this.#out;
    const start = out.open(tag);
    out.uint32Field(0x10, answer.missed ? 1 : 0);
    out.uint32Field(0x18, answer.error === "" ? 0 : 1);
    out.textField(0x22, answer.error);
    out.close(start);
  }
}

export function writeFlowEndResponse(statuses: readonly ReturnStatus[]): Buffer {
  const out = new ProtoWriter();
  for (const status of statuses) {
    const start = out.open(0x0a);
    writeRef(out, 0x0a, status.ref);
    out.uint32Field(0x10, status.returned ? 1 : 0);
    out.textField(0x1a, status.error);
    out.close(start);
  }
  return out.copy();
}
