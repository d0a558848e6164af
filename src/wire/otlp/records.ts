// The part of OpenTelemetry's exports that is read, in protobuf and in JSON: the attributes of each log record
// or span, and the bounds of a message.

import { Fault } from "#base/fault.ts";

/** Attributes by name: strings, numbers, and booleans as strings. Lists, maps and bytes are left out. */
export type Attributes = ReadonlyMap<string, string | number>;

/** The kinds of export. Both have resources, scopes in them, and records (logs) or spans (traces) in those. */
export type Signal = "logs" | "traces";

/** Maximum number of records in a message. A proxy sends some tens at once, an SDK 512. */
const MAX_RECORDS = 10_000;
/** Maximum number of attributes of one record. */
const MAX_ATTRIBUTES = 1_000;
/** Maximum number of attributes in a message: with twenty bytes each, they fill a message of 4 MiB. */
const MAX_TOTAL_ATTRIBUTES = 200_000;

/**
 * Collects the records of a message.
 * @throws Fault INVALID_ARGUMENT beyond 10 000 records, 1 000 attributes in one record or 200 000 in all
 */
export class RecordList {
  readonly records: Attributes[] = [];
  #current = new Map<string, string | number>();
  #total = 0;

  /** Begins the next record. */
  begin(): void {
    if (this.records.length === MAX_RECORDS) throw tooMany(`${MAX_RECORDS} records`);
    this.#current = new Map();
    this.records.push(this.#current);
  }

  /** Adds an attribute to the record. Of equal keys the last counts. */
  attribute(key: string, value: string | number): void {
    this.#current.set(key, value);
    this.#total++;
    if (this.#current.size > MAX_ATTRIBUTES)
      throw tooMany(`${MAX_ATTRIBUTES} attributes of a record`);
    if (this.#total > MAX_TOTAL_ATTRIBUTES)
      throw tooMany(`${MAX_TOTAL_ATTRIBUTES} attributes of all records`);
  }
}

function tooMany(what: string): Fault {
  return new Fault("INVALID_ARGUMENT", `wanted at most ${what}, got more`);
}
