// Reads the recording of a policy that ran: its inputs, its outputs tick by tick, and which of them were faults of the
// recorded system. README.md describes the files.

import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [key: string]: Json };

/** Readings by tick: null is invalid, and infinities are the strings "+Inf" and "-Inf". */
export type Column = readonly (number | string | null)[];

export interface RecordedPort {
  readonly signal?: string;
  readonly looped?: boolean;
  readonly const?: number | string;
}

export interface RecordedLeaf {
  readonly id: string;
  readonly name: string;
  readonly in?: Readonly<Record<string, readonly RecordedPort[] | null>>;
  readonly out?: Readonly<Record<string, readonly RecordedPort[] | null>>;
  readonly config?: JsonObject | null;
}

export interface RecordedDecision {
  readonly tick: number;
  readonly until_tick?: number;
  readonly op: "put" | "delete";
  readonly key: string;
  readonly value?: JsonObject;
}

export interface RecordedAlert {
  readonly tick: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly resolve_after: string;
  readonly generator_url: string;
}

export interface RecordedQuery {
  readonly at?: readonly number[];
  readonly first?: number;
  readonly every?: number;
  readonly count?: number;
}

export interface Ticks {
  readonly evaluation_interval: string;
  readonly ticks: number;
  readonly start: string;
  readonly signals?: Readonly<Record<string, Column>>;
  readonly decisions?: readonly RecordedDecision[];
  readonly alerts?: readonly RecordedAlert[];
  readonly queries?: Readonly<Record<string, RecordedQuery>>;
}

export interface ScaleStatus {
  readonly before_tick: number;
  readonly component_id: string;
  readonly configured_replicas: number;
  readonly actual_replicas: number;
  readonly remove?: boolean;
  readonly wrong_hash?: boolean;
}

export interface RecordedCase {
  /** Name of the folder and of the policy. */
  readonly name: string;
  readonly folder: string;
  /** Undefined when the recording has no flattened circuit. */
  readonly leaves: readonly RecordedLeaf[] | undefined;
  /** Undefined when the circuit never ran. */
  readonly ticks: Ticks | undefined;
  readonly right: Partial<Pick<Ticks, "signals" | "decisions" | "alerts">>;
  readonly replies: Readonly<Record<string, readonly { from: number; reply: Json }[]>>;
  readonly dynamicConfig: readonly { before_tick: number; config: JsonObject | null }[];
  readonly scaleStatus: readonly ScaleStatus[];
  /** Readings that are faults of the recorded system, described in words. */
  readonly doNotCopy: Readonly<Record<string, string>>;
}

export function readCase(folder: string): RecordedCase {
  const read = <T>(file: string): T | undefined => {
    const path = join(folder, file);
    return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as T) : undefined;
  };
  return {
    name: basename(folder),
    folder,
    leaves: read<readonly RecordedLeaf[]>("circuit.json"),
    ticks: read<Ticks>("ticks.json"),
    right: read<RecordedCase["right"]>("right.json") ?? {},
    replies: read<{ queries: RecordedCase["replies"] }>("prometheus.json")?.queries ?? {},
    dynamicConfig: read<RecordedCase["dynamicConfig"]>("dynamic-config.json") ?? [],
    scaleStatus: read<RecordedCase["scaleStatus"]>("scale-status.json") ?? [],
    doNotCopy: read<{ do_not_copy?: RecordedCase["doNotCopy"] }>("case.json")?.do_not_copy ?? {},
  };
}
