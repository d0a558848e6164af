// Compiles a document for a controller, in this process or in the compiling child process.

import type { CompileSettings } from "#policy/compiled.ts";
import { type CompiledSet, compileSetInSteps, type PolicyText } from "#policy/set.ts";
import { sha256 } from "../digest.ts";
import { withoutUnread } from "./unread.ts";

export function* compileText(
  text: PolicyText,
  settings: CompileSettings,
): Generator<void, CompiledSet> {
  const set = yield* compileSetInSteps([text], { digest: sha256, ...settings });
  const policies = set.policies.map((policy) => {
    const { circuit } = policy;
    return { ...policy, circuit: circuit && withoutUnread(circuit) };
  });
  return { ...set, policies };
}
