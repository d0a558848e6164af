// Reads and writes the file of a snapshot: rules and numbers, as they are in the store. Each line is a JSON object: a head,
// one for each entry, and the digest of all lines before it.

import { createHash } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import type { Clock } from "#base/clock.ts";
import { Fault, systemErrorText } from "#base/fault.ts";
import { Slices } from "#runtime/life/slices.ts";
import { readRegularFile } from "#runtime/life/text-file.ts";

/** Version of the form. A reader refuses every other one. */
const VERSION = 1;

/** Limit of a file, in bytes. An agent with more rules keeps no snapshot. */
export const MAX_BYTES = 64 * 1024 * 1024;

/** Bytes of one write. */
const CHUNK_BYTES = 64 * 1024;

/** The owner of the rules: a snapshot is of no use to another group, or under another prefix of keys. */
export interface SnapshotOwner {
  readonly group: string;
  readonly namespace: string;
}

export interface Snapshot {
  /** Unix ms. */
  readonly savedAt: number;
  /** Revision of the store. */
  readonly revision: number;
  /** Values by key. */
  readonly entries: ReadonlyMap<string, Uint8Array>;
}

/**
 * Replaces the file as a whole, in slices between which checks are answered. Only its owner can read it. The old file stays
 * when this rejects.
 */
export async function writeSnapshot(
  path: string,
  { group, namespace }: SnapshotOwner,
  { savedAt, revision, entries }: Snapshot,
  clock: Pick<Clock, "now">,
): Promise<void> {
  const part = `${path}.part`;
  const all = [...entries];
  const slices = new Slices(clock);
  const hash = createHash("sha256");
  let written = 0;
  let chunk = `${JSON.stringify({ version: VERSION, group, namespace, saved_at: savedAt, revision, entries: all.length })}\n`;
  try {
    await rm(part, { force: true });
    const file = await open(part, "wx", 0o600);
    const flush = async () => {
      hash.update(chunk);
      written += chunk.length;
      if (written > MAX_BYTES)
        throw new Fault("RESOURCE_EXHAUSTED", `the rules have more than ${MAX_BYTES} bytes`);
      await file.write(chunk);
      chunk = "";
    };
    try {
      for (const [key, value] of all) {
        chunk += `${JSON.stringify({ key, value: Buffer.from(value).toString("base64") })}\n`;
        if (chunk.length > CHUNK_BYTES) await flush();
        await slices.pause();
      }
      await flush();
      await file.write(`${JSON.stringify({ sha256: hash.digest("hex") })}\n`);
      await file.datasync();
    } finally {
      await file.close();
    }
    await rename(part, path);
  } catch (thrown) {
    await rm(part, { force: true }).catch(() => undefined);
    throw thrown instanceof Fault ? thrown : new Fault("UNAVAILABLE", systemErrorText(thrown));
  }
}

/** @throws Fault with the reason when there is no usable file. */
export async function readSnapshot(path: string, owner: SnapshotOwner): Promise<Snapshot> {
  const bytes = await readRegularFile(path, MAX_BYTES + CHUNK_BYTES);
  const end = bytes.lastIndexOf("\n", bytes.length - 2) + 1;
  const [last] = linesOf(path, bytes.subarray(end));
  const [head, ...lines] = linesOf(path, bytes.subarray(0, end));
  if (head?.["version"] !== VERSION)
    throw unusable(
      path,
      `wanted a snapshot of version ${VERSION}, got ${shown(head?.["version"])}`,
    );
  const digest = createHash("sha256").update(bytes.subarray(0, end)).digest("hex");
  if (last?.["sha256"] !== digest) throw unusable(path, "its content does not match its digest");
  for (const name of ["group", "namespace"] as const) {
    if (head[name] !== owner[name])
      throw unusable(path, `wanted rules of the ${name} ${owner[name]}, got ${shown(head[name])}`);
  }
  return {
    savedAt: Number(head["saved_at"]),
    revision: Number(head["revision"]),
    entries: new Map(
      lines.map(({ key, value }) => [String(key), Buffer.from(String(value), "base64")]),
    ),
  };
}

function linesOf(path: string, bytes: Buffer): readonly Readonly<Record<string, unknown>>[] {
  try {
    const lines = bytes.toString("utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  } catch {
    throw unusable(path, "wanted lines of JSON objects, got something else");
  }
}

function unusable(path: string, why: string): Fault {
  return new Fault("DATA_LOSS", `${path}: ${why}`);
}

function shown(value: unknown): string {
  return value === undefined ? "none" : JSON.stringify(value).slice(0, 60);
}
