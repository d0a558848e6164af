// Version, start time and host of this process, as the info routes show them.

import { readFileSync } from "node:fs";
import { hostname, networkInterfaces } from "node:os";
import type { Clock } from "#base/clock.ts";
import { formatSeconds } from "#base/duration.ts";
import { timestamp } from "./status.ts";

export interface VersionInfo {
  readonly version: string;
  readonly service: string;
  readonly build_host: string;
  readonly build_os: string;
  readonly build_time: string;
  readonly git_branch: string;
  readonly git_commit_hash: string;
}

export interface ProcessInfo {
  /** RFC 3339, UTC. */
  readonly start_time: string;
  /** Seconds with the suffix `s`. */
  readonly uptime: string;
  readonly extensions: readonly string[];
}

export interface HostInfo {
  /** Generated anew by every process. */
  readonly uuid: string;
  readonly hostname: string;
  readonly local_ip: string;
}

export interface Info {
  version(): VersionInfo;
  process(): ProcessInfo;
  host(): HostInfo;
}

const ROOT = new URL("../../../", import.meta.url);
const UNKNOWN = "unknown";

/** `service` is the name of this process, such as `sluice-agent`; `id` is its UUID. */
export function info(service: string, clock: Clock, id: string): Info {
  const started = clock.wall();
  const startedNow = clock.now();
  let known: VersionInfo | undefined;
  return {
    version() {
      known ??= { version: version(), service, ...build(), ...git() };
      return known;
    },
    process: () => ({
      start_time: timestamp(started),
      uptime: formatSeconds(clock.now() - startedNow),
      extensions: [],
    }),
    host: () => ({ uuid: id, hostname: hostname(), local_ip: localAddress() }),
  };
}

/** The version in package.json. */
export function version(): string {
  const found: unknown = JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8"));
  const known = typeof found === "object" && found !== null && "version" in found;
  return known ? String(found.version) : UNKNOWN;
}

/** There is no build step, so these facts are unknown. */
function build() {
  return { build_host: UNKNOWN, build_os: UNKNOWN, build_time: UNKNOWN };
}

/** Branch and commit, when the process runs from a git checkout. */
function git(): { readonly git_branch: string; readonly git_commit_hash: string } {
  const head = read(".git/HEAD");
  const branch = /^ref: refs\/heads\/(\S+)$/.exec(head)?.[1];
  if (branch === undefined) {
    return { git_branch: UNKNOWN, git_commit_hash: commitIn(head) ?? UNKNOWN };
  }
  const loose = commitIn(read(`.git/refs/heads/${branch}`));
  const packed = read(".git/packed-refs")
    .split("\n")
    .find((line) => line.endsWith(` refs/heads/${branch}`));
  return { git_branch: branch, git_commit_hash: loose ?? commitIn(packed ?? "") ?? UNKNOWN };
}

function commitIn(text: string): string | undefined {
  return /^[0-9a-f]{40,64}\b/.exec(text)?.[0];
}

/** The trimmed text of a file; "" when it cannot be read. */
function read(path: string): string {
  try {
    return readFileSync(new URL(path, ROOT), "utf8").trim();
  } catch {
    return "";
  }
}

/** The first address that is not loopback, IPv4 preferred; 127.0.0.1 when there is none. */
function localAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outward = all.filter(({ internal }) => !internal);
  const chosen = outward.find(({ family }) => family === "IPv4") ?? outward[0];
  return chosen?.address ?? "127.0.0.1";
}
