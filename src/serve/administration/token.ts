// The token of administration: from the configuration, or from a file that is read again when it changes. Tokens are
// compared in constant time and never logged.

import { hash, timingSafeEqual } from "node:crypto";
import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import type { Log } from "#base/log.ts";
import { WatchedFiles } from "#runtime/life/watched-files.ts";
import type { AdministrationSettings } from "../settings.ts";

/** Shorter ones could be guessed. */
const MIN_LENGTH = 16;
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

export interface Token {
  matches(presented: string): boolean;
  close(): void;
}

/** Returns undefined if no token is configured. Throws a Fault INVALID_ARGUMENT if the token is unusable. */
export function openToken(
  { token, token_path }: Pick<AdministrationSettings, "token" | "token_path">,
  clock: Clock,
  log: Log,
): Token | undefined {
  if (token_path === "") {
    if (token === "") return undefined;
    const digest = digestOf(usable(token, "token"));
    return { matches: (presented) => equal(presented, digest), close() {} };
  }
  const files = new WatchedFiles({
    setting: "server.administration",
    what: "token",
    files: { token_path },
    use: ({ token_path: text }) => digestOf(usable(String(text).trim(), "token_path")),
    clock,
    log,
  });
  return {
    matches: (presented) => equal(presented, files.current),
    close: () => files.close(),
  };
}

function usable(token: string, key: "token" | "token_path"): string {
  if (token.length >= MIN_LENGTH && VISIBLE_ASCII.test(token)) return token;
  const wanted = `a token of at least ${MIN_LENGTH} visible ASCII characters without blanks`;
  throw new Fault("INVALID_ARGUMENT", `server.administration.${key}: wanted ${wanted}`);
}

/** Digests have one length, so that a comparison does not reveal that of the token. */
function digestOf(token: string): Buffer {
  return hash("sha256", token, "buffer");
}

function equal(presented: string, digest: Buffer): boolean {
  return timingSafeEqual(digestOf(presented), digest);
}
