// Reads text files that users name, of bounded size.

import { isUtf8 } from "node:buffer";
import { open, stat } from "node:fs/promises";
import { Fault, systemErrorText } from "#base/fault.ts";

/**
 * Returns UTF-8 text. Reads regular files only, because a pipe or a device could block a thread of a process that
 * serves, or never end. Throws a Fault INVALID_ARGUMENT that names the file, what was wanted and what was got.
 */
export async function readTextFile(path: string, maxBytes: number): Promise<string> {
  return read(path, maxBytes, false);
}

/** The same for commands of a terminal, which also take a pipe, such as `<(…)` of a shell or `/dev/stdin`. */
export async function readTextFileOrPipe(path: string, maxBytes: number): Promise<string> {
  return read(path, maxBytes, true);
}

async function read(path: string, maxBytes: number, pipes: boolean): Promise<string> {
  try {
    const facts = await stat(path);
    if (pipes && facts.isFIFO()) return await readPipe(path, maxBytes);
    if (!facts.isFile()) throw wanted(path, "a regular file", kindOf(facts));
    if (facts.size > maxBytes) throw wanted(path, `at most ${maxBytes} bytes`, `${facts.size}`);
    const file = await open(path);
    try {
      // Of a file that grows meanwhile, only what was there at the time of `stat` is read.
      const bytes = Buffer.alloc(facts.size);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      return textOf(path, bytes.subarray(0, bytesRead));
    } finally {
      await file.close();
    }
  } catch (thrown) {
    if (thrown instanceof Fault) throw thrown;
    throw wanted(path, "a file that can be read", systemErrorText(thrown));
  }
}

/** Reads to the end of the pipe, or until there is more than `maxBytes`. */
async function readPipe(path: string, maxBytes: number): Promise<string> {
  const file = await open(path);
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of file.createReadStream()) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > maxBytes) throw wanted(path, `at most ${maxBytes} bytes`, "more");
  }
  return textOf(path, Buffer.concat(chunks));
}

/**
 * Returns UTF-8 bytes of `path` as text. Throws a Fault INVALID_ARGUMENT that names the first line with other bytes:
 * replaced silently, these would change what the text says.
 */
export function textOf(path: string, bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString("utf8");
  // A newline is never part of a longer character, so each line can be looked at alone.
  let line = 1;
  let start = 0;
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
    if (!isUtf8(bytes.subarray(start, end))) break;
    line++;
    start = end + 1;
  }
  throw wanted(path, "UTF-8 text", `other bytes in line ${line}`);
}

/** Has no cause: the path and the system's reason explain everything, and a stack would add nothing. */
function wanted(path: string, what: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${path}: wanted ${what}, got ${got}`);
}

function kindOf(facts: { isDirectory(): boolean; isFIFO(): boolean }): string {
  if (facts.isDirectory()) return "a directory";
  return facts.isFIFO() ? "a pipe" : "a device or socket";
}
