// The other side of `compiler.ts`: a thread that does nothing but judge and compile documents.

import { parentPort } from "node:worker_threads";
import { compileSet } from "#policy/set.ts";
import type { Question, Reply } from "./compiler.ts";
import { sha256 } from "./digest.ts";

parentPort?.on("message", (question: Question) => parentPort?.postMessage(answer(question)));

function answer({ texts, queries }: Question): Reply {
  try {
    return { set: compileSet(texts, { digest: sha256, queries }) };
  } catch (thrown) {
    return { thrown: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) };
  }
}
