// Reading a text file that a person named: a regular one, of bounded size. A pipe or a device would hold a
// thread of the process, or grow without end.

import { open, stat } from "node:fs/promises";
import { Fault } from "#base/fault.ts";
import { reasonOf } from "#base/reason.ts";

/** UTF-8 text. Throws Fault INVALID_ARGUMENT that names the file, what was wanted and what was got. */
export async function readTextFile(path: string, maxBytes: number): Promise<string> {
  try {
    const facts = await stat(path);
    if (!facts.isFile()) throw wanted(path, "a regular file", kindOf(facts));
    if (facts.size > maxBytes) throw wanted(path, `at most ${maxBytes} bytes`, `${facts.size}`);
    const file = await open(path);
    try {
      // A file that grows meanwhile is read as far as it went when it was looked at.
      const bytes = Buffer.alloc(facts.size);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      return bytes.toString("utf8", 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (thrown) {
    if (thrown instanceof Fault) throw thrown;
    throw wanted(path, "a file that can be read", reasonOf(thrown));
  }
}

/** Without a cause: the path and the system's reason are the whole story, a stack adds nothing. */
function wanted(path: string, what: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${path}: wanted ${what}, got ${got}`);
}

function kindOf(facts: { isDirectory(): boolean; isFIFO(): boolean }): string {
  if (facts.isDirectory()) return "a directory";
  return facts.isFIFO() ? "a pipe" : "a device or socket";
}
