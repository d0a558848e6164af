// The files by which a command proves who it is to a server, and knows the server, as flags name them.

import { readFile } from "node:fs/promises";
import { Fault, systemErrorText } from "#base/fault.ts";

/** For `readArgs`. */
export const TLS_OPTIONS = {
  ca: { type: "string" },
  cert: { type: "string" },
  key: { type: "string" },
} as const;

const NAMES = ["ca", "cert", "key"] as const;

export type TlsFlags = { readonly [Name in (typeof NAMES)[number]]?: string | boolean | undefined };

/** The contents of the files, as Node takes them for a connection; undefined where no flag names one. */
export type TlsFiles = Readonly<Record<(typeof NAMES)[number], Buffer | undefined>>;

/** @throws Fault INVALID_ARGUMENT for a file that cannot be read, and for a certificate without key or a key without certificate */
export async function readTlsFiles(flags: TlsFlags): Promise<TlsFiles> {
  const [ca, cert, key] = await Promise.all(NAMES.map((name) => fileOf(name, flags[name])));
  if ((cert === undefined) !== (key === undefined)) {
    throw new Fault("INVALID_ARGUMENT", "wanted --cert and --key together, got one");
  }
  return { ca, cert, key };
}

/** The content of the file that the flag `--NAME` names. @throws Fault INVALID_ARGUMENT when it cannot be read */
export async function fileOf(
  name: string,
  path: string | boolean | undefined,
): Promise<Buffer | undefined> {
  if (typeof path !== "string") return undefined;
  return readFile(path).catch((thrown: unknown) => {
    const wanted = `--${name}: wanted a file that can be read`;
    throw new Fault("INVALID_ARGUMENT", `${wanted}, got ${systemErrorText(thrown)}`);
  });
}
