// The credentials of this process for the API server: a bearer token, or nothing where a client certificate identifies
// it.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { readTextFile } from "#runtime/life/text-file.ts";

export interface Credentials {
  /**
   * The value of the authorization header; undefined where there is none.
   * @throws Fault UNAUTHENTICATED when the token cannot be read
   */
  authorization(): Promise<string | undefined>;
  /** Called when the server refused this value. Returns whether there is another one now. */
  refused(authorization: string | undefined): Promise<boolean>;
}

/** Bytes of the longest token. */
const MAX_BYTES = 64 * 1024;
/** Milliseconds for which a token that was read is used. Tokens of pods are replaced long before they end. */
const KEPT_MS = 60_000;

/** A token that never changes; undefined for none. */
export function fixedToken(token: string | undefined): Credentials {
  const value = token === undefined ? undefined : `Bearer ${token}`;
  return { authorization: async () => value, refused: async () => false };
}

/** A token in a file, which is read again every minute and whenever the server refuses it. */
export function tokenFile(path: string, clock: Clock): Credentials {
  let known: { readonly value: string; readonly at: number } | undefined;
  const read = async () => {
    try {
      const token = (await readTextFile(path, MAX_BYTES)).trim();
      if (token === "") throw new Fault("INVALID_ARGUMENT", `${path}: wanted a token, got nothing`);
      known = { value: `Bearer ${token}`, at: clock.now() };
      return known.value;
    } catch (thrown) {
      const why = `no token for the API server: ${Fault.from(thrown).message}`;
      throw new Fault("UNAUTHENTICATED", why, { cause: thrown });
    }
  };
  return {
    authorization: async () =>
      known !== undefined && clock.now() - known.at < KEPT_MS ? known.value : read(),
    refused: async (used) => (await read()) !== used,
  };
}
