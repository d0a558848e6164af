// The child process of `compiler.ts`: validates and compiles documents.

import { finish } from "#base/async/steps.ts";
import { compileText } from "./compile-text.ts";
import type { CompileReply, CompileRequest } from "./compiler.ts";
import { Deduplicator } from "./deduplicator.ts";

// A terminal signals both processes. This one ends with the channel when its parent ends.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

process.on("message", (request) => process.send?.(answer(request as CompileRequest)));

function answer({ texts, settings }: CompileRequest): CompileReply {
  try {
    // Shared objects stay shared in the parent process.
    const deduplicator = new Deduplicator();
    const sets = texts.map((text) => finish(compileText(text, settings)));
    return { sets: deduplicator.deduplicate(sets) };
  } catch (thrown) {
    return { thrown: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) };
  }
}
