// The answer to a check in binary: CheckResponse, its LimiterDecisions, and the reply of FlowEnd. The parts of
// components and classifiers that never change are encoded once.

import { cutText } from "#base/text/cut.ts";
import { Fragment } from "../protobuf/base64.ts";
import { ProtoWriter } from "../protobuf/writer.ts";
import { DecisionWriter } from "./decisions/decision-writer.ts";
import type { ReportedDecision } from "./decisions/reported-decision.ts";
import type { InflightRef } from "./request.ts";
import { writePair, writeRef } from "./request-writer.ts";

/** Sorted label keys of a reply. Their encoded forms are made when first needed, and kept where the list is used again. */
export class KeyList {
  readonly keys: readonly string[];
  /** Made for one reply, whose writer does not keep encoded forms of it. */
  readonly once: boolean;
  #proto: Fragment | undefined;
  #followed: Fragment | undefined;
  #follower: Fragment | undefined;
  #json: Buffer | undefined;

  constructor(keys: readonly string[], once = false) {
    this.keys = keys;
    this.once = once;
  }

  /** A list of these keys and others, for one reply. */
  with(others: readonly string[]): KeyList {
    return others.length === 0 ? this : new KeyList(merged(this.keys, [...others].sort()), true);
  }

  /** As field `flow_label_keys` of CheckResponse. */
  get proto(): Fragment {
    if (this.#proto === undefined) {
      const out = new ProtoWriter();
      this.write(out);
      this.#proto = new Fragment(out.copy());
    }
    return this.#proto;
  }

  write(out: ProtoWriter): void {
    for (const key of this.keys) out.text(0x32, key);
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

/** Two sorted lists as one. */
function merged(left: readonly string[], right: readonly string[]): string[] {
  const all: string[] = [];
  let at = 0;
  for (const key of right) {
    for (let next = left[at]; next !== undefined && next <= key; next = left[++at]) all.push(next);
    all.push(key);
  }
  for (; at < left.length; at++) all.push(left[at] ?? "");
  return all;
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

/** The same object per plan and error. */
export interface ReportedClassifier {
  readonly policyName: string;
  readonly policyHash: string;
  readonly classifierIndex: number;
  readonly error: number;
  /** The reason for which the source of a label could not be read; undefined if all could. */
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
  /** Empty leaves the field out. */
  readonly reservationId: string;
}

export interface ReturnStatus {
  readonly ref: InflightRef;
  readonly returned: boolean;
  readonly error: string;
}

const EXPECT_END = 16 << 3;

/** Number of Sluice's own field `reservation_id` of CheckResponse. */
export const RESERVATION_ID = 2000;
const RESERVATION_ID_TAG = (RESERVATION_ID << 3) | 2;
/** Sluice's own fields `settled` and `settlement_error` of FlowEndResponse. */
const SETTLED = 2000 << 3;
const SETTLEMENT_ERROR = (2001 << 3) | 2;

/** Sluice's own field `unreadable` of ClassifierInfo. */
const UNREADABLE = (2000 << 3) | 2;

/** Writes check responses, one after another, into one buffer. */
export class CheckResponseWriter {
  readonly #out = new ProtoWriter();
  readonly #decisions = new DecisionWriter();
  readonly #classifiers = new WeakMap<ReportedClassifier, Fragment>();

  /** The encoded message, valid until the next write. `telemetry` has labels besides those of the reply. */
  write(reply: CheckReply, telemetry?: TelemetryWriter): ProtoWriter {
    const out = this.#out;
    out.reset();
    out.time(0x0a, reply.start);
    out.time(0x12, reply.end);
    for (const service of reply.services) out.text(0x22, service);
    out.textField(0x2a, reply.controlPoint);
    const { keys } = reply;
    if (keys.once) keys.write(out);
    else if (telemetry === undefined) out.fragment(keys.proto);
    if (telemetry !== undefined) {
      out.fragment(keys.once ? telemetry.fixed : keys.followedBy(telemetry.fixed));
      telemetry.writeTelemetry(out);
    }
    const pairs = reply.telemetry;
    for (let at = 0; at < pairs.length; at += 2) {
      writePair(out, TELEMETRY_ENTRY, pairs[at] ?? "", cutText(pairs[at + 1] ?? ""));
    }
    out.uint32Field(0x40, reply.accepted ? 0 : 1);
    out.uint32Field(0x48, reply.reason);
    for (const classifier of reply.classifiers) out.fragment(this.#classifier(classifier));
    for (const meter of reply.fluxMeters) {
      const start = out.open(0x5a);
      out.textField(0x0a, meter);
      out.close(start);
    }
    this.#decisions.write(out, reply.decisions);
    if (reply.waitMs > 0) out.time(0x6a, reply.waitMs);
    out.uint32Field(0x70, reply.deniedStatus);
    if (reply.cache !== undefined) this.#writeCache(reply.cache);
    if (reply.expectEnd) {
      out.tag(EXPECT_END);
      out.uint32(1);
    }
    if (reply.reservationId !== "") out.text(RESERVATION_ID_TAG, reply.reservationId);
    return out;
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

/** The results of the end of a flow. */
export interface FlowEndReply {
  readonly slots: readonly ReturnStatus[];
  /** Result of settling the reservation, with the reason if that failed; undefined where the call has neither one nor a cost. */
  readonly settlement: { readonly settled: boolean; readonly error: string } | undefined;
}

export function writeFlowEndResponse({ slots, settlement }: FlowEndReply): Buffer {
  const out = new ProtoWriter();
  for (const status of slots) {
    const start = out.open(0x0a);
    writeRef(out, 0x0a, status.ref);
    out.uint32Field(0x10, status.returned ? 1 : 0);
    out.textField(0x1a, status.error);
    out.close(start);
  }
  if (settlement !== undefined) {
    out.tag(SETTLED);
    out.uint32(Number(settlement.settled));
    out.textField(SETTLEMENT_ERROR, settlement.error);
  }
  return out.copy();
}
