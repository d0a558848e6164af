// The token of administration: from the configuration, or from a file that is read again when it changes. Presented
// tokens are compared in constant time, and no token is ever logged.

import { hash, timingSafeEqual } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { readTextFile } from "#host/life/text-file.ts";
import type { AdministrationSettings } from "../settings.ts";
import { watchFiles } from "../tls/watch.ts";

/** Shorter ones could be guessed. */
const MIN_LENGTH = 16;
/** Size of the largest file: far more than any token needs. */
const MAX_BYTES = 64 * 1024;
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

export interface Token {
  matches(presented: string): boolean;
  close(): void;
}

/** Returns undefined if no token is configured. Throws a Fault INVALID_ARGUMENT if there is one that cannot be used. */
export async function openToken(
  { token, token_path: path }: Pick<AdministrationSettings, "token" | "token_path">,
  clock: Clock,
  log: Log,
): Promise<Token | undefined> {
  if (path === "") {
    if (token === "") return undefined;
    const digest = digestOf(usable(token, "token"));
    return { matches: (presented) => equal(presented, digest), close() {} };
  }
  let digest = digestOf(await read(path));
  let complained = false;
  const reload = async () => {
    try {
      const changed = digestOf(await read(path));
      complained = false;
      if (timingSafeEqual(changed, digest)) return;
      digest = changed;
      log.info({ path }, "reloaded the administration token");
    } catch (thrown) {
      if (complained) return;
      complained = true;
      log.warn({ error: Fault.from(thrown) }, "keeping the current administration token");
    }
  };
  const unwatch = watchFiles([path], clock, () => void reload());
  return { matches: (presented) => equal(presented, digest), close: unwatch };
}

async function read(path: string): Promise<string> {
  const text = await readTextFile(path, MAX_BYTES).catch((thrown: unknown) => {
    const { code, message } = Fault.from(thrown);
    throw new Fault(code, `server.administration.token_path: ${message}`);
  });
  return usable(text.trim(), "token_path");
}

function usable(token: string, key: "token" | "token_path"): string {
  if (token.length >= MIN_LENGTH && VISIBLE_ASCII.test(token)) return token;
  const wanted = `a token of at least ${MIN_LENGTH} visible ASCII characters without blanks`;
  throw new Fault("INVALID_ARGUMENT", `server.administration.${key}: wanted ${wanted}`);
}

/** Digests have one length, so that a comparison reveals nothing about the length of the token either. */
function digestOf(token: string): Buffer {
  return hash("sha256", token, "buffer");
}

function equal(presented: string, digest: Buffer): boolean {
  return timingSafeEqual(digestOf(presented), digest);
}
