// Compiles a document for a controller, in this process or in the compiling child process.

import type { CompileSettings } from "#policy/compiled.ts";
import { compileSetInSteps, type PolicySet, type PolicyText } from "#policy/set.ts";
import { sha256 } from "../digest.ts";
import { withoutUnread } from "./unread.ts";

export function* compileText(
  text: PolicyText,
  settings: CompileSettings,
): Generator<void, PolicySet> {
  const set = yield* compileSetInSteps([text], { digest: sha256, ...settings });
  const policies = set.policies.map(({ source, of: policy }) => {
    const { circuit } = policy;
    return { source, of: { ...policy, circuit: circuit && withoutUnread(circuit) } };
  });
  return { ...set, policies };
}
