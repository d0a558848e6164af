// The credentials of this process for the API server: a bearer token, or nothing if a client certificate identifies it.

import type { Clock } from "#base/clock.ts";
import { Fault } from "#base/fault.ts";
import { readTextFile } from "#runtime/life/text-file.ts";

export interface Credentials {
  /**
   * The value of the authorization header; undefined for none.
   * @throws Fault UNAUTHENTICATED when the token cannot be read
   */
  authorization(): Promise<string | undefined>;
  /** Called when the server rejected this value. Returns whether there is a newer one. */
  refused(authorization: string | undefined): Promise<boolean>;
}

/** Longest token, in bytes. */
const MAX_BYTES = 64 * 1024;
/** Milliseconds for which a token is cached. Tokens of pods are replaced long before they expire. */
const KEPT_MS = 60_000;

export function fixedToken(token: string | undefined): Credentials {
  const value = token === undefined ? undefined : `Bearer ${token}`;
  return { authorization: async () => value, refused: async () => false };
}

/** A token in a file, reloaded every minute and whenever the server rejects it. */
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
