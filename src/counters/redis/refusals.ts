// Translates errors of a Redis server about wrong settings: the message names the setting to change, and no secret.

import type { RedisSettings } from "../settings.ts";

interface Refusal {
  readonly pattern: RegExp;
  readonly explain: (said: string, settings: RedisSettings) => string;
}

/** The first match applies. Each message keeps the error code, which the documentation of the server explains. */
const REFUSALS: readonly Refusal[] = [
  {
    pattern: /sentinels.*(NOAUTH|WRONGPASS)/i,
    explain: (said, { sentinel }) => {
      const where = `the Sentinels at ${sentinel.addresses.join(", ")}`;
      return sentinel.password === ""
        ? `${where} want a password, and counters.redis.sentinel.password is empty (${codeOf(said)})`
        : `${where} do not accept counters.redis.sentinel.username and counters.redis.sentinel.password (${codeOf(said)})`;
    },
  },
  {
    pattern: /sentinels.*No such master/i,
    explain: (said, { sentinel: { master, addresses } }) =>
      `the Sentinels at ${addresses.join(", ")} know no "${master}", which counters.redis.sentinel.master names (${lastOf(said)})`,
  },
  {
    pattern: /NOAUTH|WRONGPASS|invalid password|ERR AUTH/i,
    explain: (said, settings) => {
      const where = placeOf(settings);
      if (settings.password === "")
        return `${where} wants a password for ${userOf(settings)}, and counters.redis.password is empty (${codeOf(said)})`;
      return `${where} does not accept counters.redis.password for ${userOf(settings)}, or has no such user (${codeOf(said)})`;
    },
  },
  {
    pattern: /NOPERM|ACL failure|can't run this command/i,
    explain: (said, settings) =>
      `${placeOf(settings)} does not let ${userOf(settings)} count, who needs the rights that docs/counters.md names: ${said}`,
  },
  {
    pattern: /DB index|SELECT is not allowed/i,
    explain: (said, settings) =>
      `${placeOf(settings)} does not have the database that counters.redis.url names: ${said}`,
  },
  {
    pattern: /cluster support disabled/i,
    explain: (said, settings) =>
      `counters.redis.cluster is true, and the server at ${hostOf(settings)} is no cluster: ${said}`,
  },
  {
    pattern: /^MOVED/,
    explain: (said, settings) =>
      `counters.redis.cluster is false, and ${placeOf(settings)} is a node of a cluster: ${said}`,
  },
  {
    pattern: /certificate required|handshake failure/i,
    explain: (_said, settings) =>
      `${placeOf(settings)} wants a client certificate that it trusts: counters.redis.tls.cert_file and counters.redis.tls.key_file (certificate required)`,
  },
  {
    pattern: /unknown ca|alert.*certificate/i,
    explain: (said, settings) =>
      `${placeOf(settings)} does not accept the certificate in counters.redis.tls.cert_file: ${said.trim()}`,
  },
  {
    pattern: /altnames|ERR_TLS_CERT_ALTNAME/i,
    explain: (said, settings) =>
      `the certificate of ${placeOf(settings)} is for another name than counters.redis.url has: ${said}`,
  },
  {
    pattern: /_CERT|CERT_|self-signed|certificate/i,
    explain: (said, settings) =>
      `the certificate of ${placeOf(settings)} is not trusted, counters.redis.tls.ca_file names who issues it: ${said}`,
  },
  {
    pattern: /ERR_TLS|ERR_SSL|EPROTO|wrong version number/i,
    explain: (said, settings) => `TLS with ${placeOf(settings)} failed: ${said.trim()}`,
  },
  {
    pattern: /unknown command/i,
    explain: (said, settings) => `${placeOf(settings)} is too old: ${said}`,
  },
];

/**
 * A server that does not speak the protocol of Redis. Another attempt may succeed: a proxy can answer in place of Redis
 * for a moment.
 */
const STRANGER: Refusal = {
  pattern: /RESP type|Protocol error/,
  explain: (_said, settings) =>
    `something that is no Redis answers for ${placeOf(settings)} (counters.redis.url)`,
};

/** Explains an error of the server by the settings that cause it. Other errors are returned unchanged. */
export function explained(said: string, settings: RedisSettings): string {
  const known = [...REFUSALS, STRANGER].find(({ pattern }) => pattern.test(said));
  return known?.explain(said, settings) ?? said;
}

/** True if another attempt would fail as well, because the configuration is wrong. */
export function isMisconfigured(said: string): boolean {
  return REFUSALS.some(({ pattern }) => pattern.test(said));
}

/** The reason why a first attempt did not reach a server, with the settings that may be wrong if no attempt does. */
export function unreached(said: string, settings: RedisSettings): string {
  const where = `${said}, from ${placeOf(settings)}`;
  if (!/no reply|ECONNRESET|EPIPE|closed/i.test(said)) return explained(said, settings);
  return settings.url.startsWith("rediss:")
    ? `${where}: it may be that its port does not speak TLS (counters.redis.url), that it is no Redis, or that it wants another client certificate (counters.redis.tls.cert_file)`
    : `${where}: it may be that its port speaks only TLS, or that it is no Redis (counters.redis.url)`;
}

function hostOf({ url }: RedisSettings): string {
  return new URL(url).host;
}

function placeOf(settings: RedisSettings): string {
  const { cluster, sentinel } = settings;
  if (sentinel.master !== "") return `the master "${sentinel.master}" of the Sentinels`;
  return cluster ? `the cluster at ${hostOf(settings)}` : `the server at ${hostOf(settings)}`;
}

function userOf({ username }: RedisSettings): string {
  return username === ""
    ? 'the user "default" (counters.redis.username is empty)'
    : `the user "${username}" (counters.redis.username)`;
}

/** The code of an error, as `NOAUTH`. */
function codeOf(said: string): string {
  return /\b(?:NOAUTH|WRONGPASS)\b/.exec(said)?.[0] ?? lastOf(said);
}

/** The client reports that all Sentinels failed; the error of the last one says why. */
function lastOf(said: string): string {
  return said.replace(/^.*Last error: /s, "");
}
