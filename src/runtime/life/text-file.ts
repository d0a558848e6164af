// Reads files that users name, of bounded size.

import { isUtf8 } from "node:buffer";
import { closeSync, constants, openSync, readSync, type Stats, statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { Fault, systemErrorText } from "#base/fault.ts";
import { printable } from "#base/text/printable.ts";

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
  const facts = pipes ? await stat(path).catch(() => undefined) : undefined;
  if (facts?.isFIFO() === true) return readPipe(path, maxBytes);
  return decodeUtf8(path, await readRegularFile(path, maxBytes));
}

/** Without this, the pipe that takes the place of a file after it was looked at would block whoever opens it. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** The bytes of a regular file. Throws the same Faults as `readTextFile`. */
export async function readRegularFile(path: string, maxBytes: number): Promise<Buffer> {
  try {
    const size = sizeOf(path, await stat(path), maxBytes);
    const file = await open(path, FLAGS);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (thrown) {
    throw unreadable(path, thrown);
  }
}

/** The same at once, for a process that does not serve yet. */
export function readRegularFileNow(path: string, maxBytes: number): Buffer {
  try {
    const size = sizeOf(path, statSync(path), maxBytes);
    const file = openSync(path, FLAGS);
    try {
      const bytes = Buffer.alloc(size);
      return bytes.subarray(0, readSync(file, bytes, 0, size, 0));
    } finally {
      closeSync(file);
    }
  } catch (thrown) {
    throw unreadable(path, thrown);
  }
}

/** Number of bytes to read: of a file that grows meanwhile, only those that were there when it was looked at. */
function sizeOf(path: string, facts: Stats, maxBytes: number): number {
  if (!facts.isFile()) throw wanted(path, "a regular file", kindOf(facts));
  if (facts.size > maxBytes) throw wanted(path, `at most ${maxBytes} bytes`, `${facts.size}`);
  return facts.size;
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
  return decodeUtf8(path, Buffer.concat(chunks));
}

/**
 * Returns UTF-8 bytes of `path` as text. Throws a Fault INVALID_ARGUMENT that names the first line with other bytes:
 * replaced silently, these would change what the text says.
 */
export function decodeUtf8(path: string, bytes: Buffer): string {
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

function unreadable(path: string, thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  return wanted(path, "a file that can be read", systemErrorText(thrown));
}

/** Has no cause: the path and the system's reason explain everything, and a stack would add nothing. */
function wanted(path: string, what: string, got: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${printable(path)}: wanted ${what}, got ${got}`);
}

function kindOf(facts: Stats): string {
  if (facts.isDirectory()) return "a directory";
  return facts.isFIFO() ? "a pipe" : "a device or socket";
}
