// Makes calls with gRPC's Python library, whose HTTP/2 is that of gRPC's C core: one process with one connection
// makes all calls concurrently.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { grpcio } from "../../../deploy/tools/install.ts";
import { folderOf } from "../folder.ts";
import { child } from "../servers/child.ts";

const SCRIPT = join(import.meta.dirname, "grpcio.py");

type Pairs = readonly (readonly [string, string])[];

export interface PythonCall {
  readonly path: string;
  readonly sides: "unary_unary" | "unary_stream" | "stream_unary" | "stream_stream";
  readonly messages: readonly Uint8Array[];
  /** Values of `-bin` names are base64, here and in the outcome. */
  readonly metadata?: Pairs;
  readonly gzip?: boolean;
  /** Deadline in seconds from the start. */
  readonly timeout?: number;
  /** Number of seconds after which the caller cancels. */
  readonly cancel?: number;
  /** Number of reply messages after which the caller cancels. */
  readonly take?: number;
}

export interface Outcome {
  readonly messages: readonly Buffer[];
  readonly code: number;
  readonly details: string;
  readonly initial: ReadonlyMap<string, string>;
  readonly trailing: ReadonlyMap<string, string>;
}

export interface Python<Name extends string> {
  /** Resolves when the call has received this many messages. */
  messages(name: Name, count: number): Promise<void>;
  /** Outcomes of all calls, once all have ended. */
  readonly outcomes: Promise<Readonly<Record<Name, Outcome>>>;
}

interface Event {
  readonly call: string;
  readonly message?: string;
  readonly code?: number;
  readonly details?: string;
  readonly initial?: Pairs;
  readonly trailing?: Pairs;
}

/** Starts the named calls; `roots` is the file with the CA certificate of a TLS port. */
export function python<Name extends string>(
  test: TestContext,
  target: string,
  calls: Readonly<Record<Name, PythonCall>>,
  roots?: string,
): Python<Name> {
  const named = Object.entries<PythonCall>(calls);
  const plan = {
    target,
    ...(roots !== undefined && { roots }),
    calls: named.map(([name, call]) => ({
      ...call,
      name,
      messages: call.messages.map((message) => Buffer.from(message).toString("base64")),
    })),
  };
  const file = join(folderOf(test), "plan.json");
  writeFileSync(file, JSON.stringify(plan));
  const env = { ...process.env, PYTHONPATH: grpcio(), PYTHONDONTWRITEBYTECODE: "1" };
  const run = child(test, "python3", [SCRIPT, file], { env });
  const events = (): readonly Event[] =>
    run
      .out()
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  const of = (name: string) => events().filter(({ call }) => call === name);
  return {
    messages: (name, count) =>
      run.until(`${count} messages of ${name}`, () => {
        return of(name).filter(({ message }) => message !== undefined).length >= count;
      }),
    outcomes: run.ended.then((code) => {
      assert.equal(code, 0, run.err());
      const outcomes = named.map(([name]) => [name, outcomeOf(of(name))] as const);
      return Object.fromEntries(outcomes) as Record<Name, Outcome>;
    }),
  };
}

function outcomeOf(events: readonly Event[]): Outcome {
  const end = events.at(-1);
  assert.ok(end?.code !== undefined, "the call ended");
  return {
    messages: events.flatMap(({ message }) =>
      message === undefined ? [] : [Buffer.from(message, "base64")],
    ),
    code: end.code,
    details: end.details ?? "",
    initial: new Map(end.initial),
    trailing: new Map(end.trailing),
  };
}
