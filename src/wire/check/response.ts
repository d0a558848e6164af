// The answer to a check in binary: CheckResponse, its LimiterDecisions, and the reply of FlowEnd. The parts of
// components and classifiers that never change are encoded once.

import { Fragment } from "../protobuf/base64.ts";
import { ProtoWriter, varintSize } from "../protobuf/writer.ts";
import {
  type DetailWriter,
  detailWriter,
  KEY_MISSING,
  missingLabels,
  type ReportedDetail,
  type ReportedKind,
} from "./limiter-details.ts";
import type { InflightRef } from "./request.ts";
import { writePair, writeRef } from "./request-writer.ts";

/** Sorted label keys of a reply. Their encoded forms are made when first needed, and kept. */
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

  /** The same followed by more fields, as one fragment. The last one is kept, since it is nearly always the same. */
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

/** Labels for telemetry that are copied from the request without making strings of them. */
export interface TelemetryWriter {
  /** Labels that hardly ever change. */
  readonly fixed: Fragment;
  /** Writes all other labels. */
  writeTelemetry(out: ProtoWriter): void;
}

/** Identifies one component. The same object for the life of a plan. */
export interface ReportedComponent {
  readonly policyName: string;
  readonly policyHash: string;
  readonly componentId: string;
  readonly kind: ReportedKind;
  readonly deniedStatus: number;
}

export interface ReportedDecision {
  readonly component: ReportedComponent;
  readonly dropped: boolean;
  /** Labels that the flow lacks, as bits: 1 the key, 2 the key where a default one was used, 4 the number of tokens. */
  readonly missing: number;
  /** ms; -1 leaves the field out. */
  readonly waitMs: number;
  /** The failure mode that answered; undefined when the limiter itself did. */
  readonly failure: string | undefined;
  /** The detail of the component's kind. */
  readonly detail: ReportedDetail;
}

/** The same object per plan and error. */
export interface ReportedClassifier {
  readonly policyName: string;
  readonly policyHash: string;
  readonly classifierIndex: number;
  readonly error: number;
  /** Why the source of a label could not be read; undefined if all could. */
  readonly unreadable: string | undefined;
}

export interface CacheAnswer {
  readonly missed: boolean;
  readonly error: string;
}

/** The part of a reply about caches: one answer per key that the caller asked for. */
export interface CacheReply {
  readonly result: CacheAnswer | undefined;
  readonly global: ReadonlyMap<string, CacheAnswer>;
}

/** The content of a CheckResponse. */
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

/** `limiter_decisions` of CheckResponse. */
const DECISION = 0x62;

const EXPECT_END = 16 << 3;

/** Sluice's own field `failure_mode` of LimiterDecision. */
const FAILURE_MODE = (2000 << 3) | 2;
/** Sluice's own field `unreadable` of ClassifierInfo. */
const UNREADABLE = (2000 << 3) | 2;

/** Sluice's own field `missing_labels` of LimiterDecision. */
const MISSING_LABELS = (2001 << 3) | 2;

/**
 * Start of a LimiterDecision up to the value that ends its label, for decisions that pass. It contains the lengths
 * of what follows, so there is one for each pair of lengths.
 */
interface Head {
  readonly waitMs: number;
  readonly valueLength: number;
  /** Bytes of the detail after the label. */
  readonly restLength: number;
  readonly fragment: Fragment;
}

/** Heads kept per component. Decisions whose values have yet other lengths are encoded in full. */
const MOST_HEADS = 8;
/** Longest value that a head is kept for. */
const MOST_VALUE = 64;

/** The encoded parts of a component that never change. */
interface KnownComponent {
  /** Fields 1 to 3 of a LimiterDecision. */
  readonly names: Fragment;
  readonly detail: DetailWriter;
  readonly heads: Head[];
  /** The prefix of labels with a value; undefined until there was one. */
  prefix: Buffer | undefined;
}

/** Writes check responses, one after another, into one buffer. */
export class CheckResponseWriter {
  readonly #out = new ProtoWriter();
  readonly #components = new WeakMap<ReportedComponent, KnownComponent>();
  readonly #classifiers = new WeakMap<ReportedClassifier, Fragment>();

  /** The encoded message, valid until the next write. `telemetry` has labels besides those of the reply. */
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
    const { component } = decision;
    const known = this.#components.get(component) ?? this.#learn(component);
    if (this.#writeUsual(decision, known)) return;
    const out = this.#out;
    const { detail } = decision;
    const start = out.open(DECISION, 2);
    out.fragment(known.names);
    out.uint32Field(0x20, decision.dropped ? 1 : 0);
    out.uint32Field(0x28, decision.missing & KEY_MISSING);
    out.uint32Field(0x50, component.deniedStatus);
    if (decision.waitMs >= 0) out.time(0x5a, decision.waitMs);
    const info = out.open((known.detail.field << 3) | 2);
    this.#writeLabel(detail, known);
    known.detail.write(out, detail);
    out.close(info);
    if (decision.failure !== undefined) out.textField(FAILURE_MODE, decision.failure);
    if (decision.missing > KEY_MISSING) {
      out.textField(MISSING_LABELS, missingLabels(decision.missing));
    }
    out.close(start, 2);
  }

  /** Writes a decision that passes behind a head that is encoded already; false, and nothing written, for others. */
  #writeUsual(decision: ReportedDecision, known: KnownComponent): boolean {
    const { detail } = decision;
    const value = detail.value;
    if (decision.dropped || decision.missing !== 0 || decision.failure !== undefined) return false;
    if (value === undefined || value.length > MOST_VALUE || detail.label === "") return false;
    if (decision.waitMs > 0) return false;
    const out = this.#out;
    const { place } = out;
    if (!out.ascii(value)) return false;
    known.detail.write(out, detail);
    const valueLength = value.length;
    const restLength = out.place - place - valueLength;
    const { heads } = known;
    for (let at = 0; at < heads.length; at++) {
      const head = heads[at];
      if (head?.valueLength !== valueLength || head.restLength !== restLength) continue;
      if (head.waitMs !== decision.waitMs) continue;
      out.fragment(head.fragment, place);
      return true;
    }
    if (heads.length === MOST_HEADS) {
      out.rewind(place);
      return false;
    }
    const head = headOf(decision, known, value, restLength);
    heads.push(head);
    out.fragment(head.fragment, place);
    return true;
  }

  #writeLabel({ label, value }: ReportedDetail, known: KnownComponent): void {
    if (value === undefined || label === "") {
      this.#out.textField(0x0a, label);
      return;
    }
    known.prefix ??= prefixOf(label, value);
    this.#out.textWithPrefix(0x0a, known.prefix, value);
  }

  #learn(component: ReportedComponent): KnownComponent {
    const out = new ProtoWriter();
    out.textField(0x0a, component.policyName);
    out.textField(0x12, component.policyHash);
    out.textField(0x1a, component.componentId);
    const names = new Fragment(out.copy());
    const detail = detailWriter(component.kind);
    const known: KnownComponent = { names, detail, heads: [], prefix: undefined };
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
    if (classifier.unreadable !== undefined) out.textField(UNREADABLE, classifier.unreadable);
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

/** The part of a label before its value. */
function prefixOf(label: string, value: string): Buffer {
  return Buffer.from(label.slice(0, label.length - value.length));
}

function headOf(
  { component, waitMs, detail }: ReportedDecision,
  known: KnownComponent,
  value: string,
  restLength: number,
): Head {
  const prefix = prefixOf(detail.label, value);
  const labelLength = prefix.length + value.length;
  const infoLength = 1 + varintSize(labelLength) + labelLength + restLength;
  const out = new ProtoWriter();
  out.raw(known.names.bytes);
  out.uint32Field(0x50, component.deniedStatus);
  if (waitMs >= 0) out.time(0x5a, waitMs);
  out.tag((known.detail.field << 3) | 2);
  out.uint32(infoLength);
  out.tag(0x0a);
  out.uint32(labelLength);
  out.raw(prefix);
  const body = out.copy();
  out.reset();
  out.tag(DECISION);
  out.uint32(body.length + value.length + restLength);
  out.raw(body);
  const fragment = new Fragment(out.copy());
  return { waitMs, valueLength: value.length, restLength, fragment };
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
