// Switches the middle one of V8's optimizing compilers (Maglev) off while a process starts. It compiles what a start runs some
// hundred times, and its threads keep up to 10 MB of what they allocated for that. Checks are a tenth slower without it.

import { setFlagsFromString } from "node:v8";

export function startWithoutMiddleCompiler(): void {
  setFlagsFromString("--no-maglev");
}

/** Called when the process has loaded its rules and is about to serve. */
export function useMiddleCompiler(): void {
  setFlagsFromString("--maglev");
}
