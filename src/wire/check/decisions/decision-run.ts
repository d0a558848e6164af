// The encoded decisions of one reply, kept as a template for the next: checks at one control point are decided by the
// same limiters, and only values of labels and numbers of tokens differ.

import { Template } from "../../protobuf/base64.ts";
import { ProtoWriter } from "../../protobuf/writer.ts";
import type { DetailWriter } from "./limiter-details.ts";
import type { ReportedComponent, ReportedDecision } from "./reported-decision.ts";

/** One decision of a run. */
export interface RunPart {
  readonly component: ReportedComponent;
  readonly detail: DetailWriter;
  /** Encoded up to the value that ends the label. */
  readonly head: Buffer;
  readonly waitMs: number;
  readonly valueLength: number;
  /** Bytes of the detail after the label. */
  readonly restLength: number;
}

/** Limit of a run, in bytes. Larger ones are not kept. */
const MAX_BYTES = 8_192;
/** Limit of the part behind a label, in bytes. A decision with a longer one is encoded each time. */
export const MAX_REST = 96;
/** Spare bytes behind a run: to write a text, the writer reserves three times its length. */
const SPARE = 3 * MAX_REST;

export class DecisionRun {
  readonly template: Template;
  readonly #parts: readonly RunPart[];
  /** Offset of each part's value. */
  readonly #places: readonly number[];
  readonly #bytes: Buffer;
  readonly #writer: ProtoWriter;

  /** Undefined when the run would be too large. */
  static of(parts: readonly RunPart[]): DecisionRun | undefined {
    const length = parts.reduce((sum, part) => sum + lengthOf(part), 0);
    return length > MAX_BYTES ? undefined : new DecisionRun(parts, length);
  }

  private constructor(parts: readonly RunPart[], length: number) {
    const memory = Buffer.alloc(length + SPARE);
    const places: number[] = [];
    const holes: number[] = [];
    let at = 0;
    for (const part of parts) {
      const place = at + part.head.copy(memory, at);
      at += lengthOf(part);
      places.push(place);
      holes.push(place, at);
    }
    this.#parts = parts;
    this.#places = places;
    this.#bytes = memory;
    this.#writer = new ProtoWriter(memory);
    this.template = new Template(memory, length, holes);
  }

  /** Puts these decisions into the template; false if they have another form. */
  fill(decisions: readonly ReportedDecision[]): boolean {
    const parts = this.#parts;
    if (decisions.length !== parts.length) return false;
    let known = "";
    let knownAt = 0;
    for (let at = 0; at < parts.length; at++) {
      const part = parts[at];
      const decision = decisions[at];
      if (part === undefined || decision === undefined || !isLike(decision, part)) return false;
      const { detail } = decision;
      const { value = "" } = detail;
      const place = this.#places[at] ?? 0;
      // Limiters that are keyed by one label have one value, whose bytes are there already.
      if (value === known && at > 0) this.#repeat(place, knownAt, value.length);
      else if (!this.#put(place, value)) return false;
      known = value;
      knownAt = place;
      this.#writer.moveTo(place + value.length);
      part.detail.write(this.#writer, detail);
    }
    return true;
  }

  #repeat(place: number, from: number, length: number): void {
    const bytes = this.#bytes;
    for (let index = 0; index < length; index++) bytes[place + index] = bytes[from + index] ?? 0;
  }

  /** False for text that is not ASCII. */
  #put(place: number, text: string): boolean {
    this.#writer.moveTo(place);
    return this.#writer.ascii(text);
  }
}

function lengthOf({ head, valueLength, restLength }: RunPart): number {
  return head.length + valueLength + restLength;
}

/** True if only the value and numbers of a decision differ from those that the part was made of. */
function isLike(decision: ReportedDecision, part: RunPart): boolean {
  const { detail } = decision;
  return (
    decision.component === part.component &&
    decision.waitMs === part.waitMs &&
    isUsual(decision) &&
    detail.value?.length === part.valueLength &&
    part.detail.length(detail) === part.restLength
  );
}

/** True if a decision passes and says nothing unusual. */
export function isUsual({ dropped, missing, failure, waitMs, detail }: ReportedDecision): boolean {
  if (dropped || missing !== 0 || failure !== undefined || waitMs > 0) return false;
  return detail.value !== undefined && detail.label !== "";
}
