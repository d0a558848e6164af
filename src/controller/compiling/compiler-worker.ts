// The worker thread of `compiler.ts`: validates and compiles documents.

import { parentPort } from "node:worker_threads";
import { compileSet } from "#policy/set.ts";
import type { CompileReply, CompileRequest } from "./compiler.ts";
import { sha256 } from "./digest.ts";

parentPort?.on("message", (request: CompileRequest) => parentPort?.postMessage(answer(request)));

function answer({ texts, queries }: CompileRequest): CompileReply {
  try {
    return { sets: texts.map((text) => compileSet([text], { digest: sha256, queries })) };
  } catch (thrown) {
    return { thrown: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) };
  }
}
